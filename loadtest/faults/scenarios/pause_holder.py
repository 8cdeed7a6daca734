"""The holder freezes, and believes in its lock when it wakes up."""

from __future__ import annotations

from loadtest.faults.context import VICTIM, ScenarioContext
from loadtest.faults.scenario import Expected, Scenario
from loadtest.faults.threads import MistimedFault
from loadtest.results.answer import Outcome
from loadtest.results.audit import Audit
from loadtest.results.record import Record

STAGE_TIMEOUT_S = 3600.0  # the room may look at the frozen holder for as long as it likes


class PauseHolder(Scenario):
    """What a long garbage collection, a suspended laptop or a live migration does to a lock.

    Between its read and its write the holder stands still, until others have sold. A lock alone cannot prevent what
    it writes then; the guard has to notice that the lease is over, or Redis has to refuse the token.
    """

    name = "pause-holder"
    what = "freeze the holder between its read and its write, let others sell, thaw it"
    sharded = False
    unfenced = Expected.BREAKS

    def play(self, context: ScenarioContext) -> None:
        context.wait_for_sales(20)
        answer = context.start_holder(0, think_ms=2000, timeout=STAGE_TIMEOUT_S)
        context.shops[0].instance.pause()
        self._frozen_ms = context.start.elapsed_ms()
        context.announce("shop-a is frozen")
        context.wait_for_sales(20)
        context.settle()
        context.hold_picture()
        self._thawed_ms = context.start.elapsed_ms()
        context.shops[0].instance.resume()
        context.announce("shop-a is thawed, and goes on where it was")
        context.wait_for("an answer to the victim", answer.done)
        context.buyers.go_on()
        if context.exact:
            context.require(
                answer.result().outcome is Outcome.LOCK_LOST, f"the victim was told {answer.result().outcome}"
            )

    def review(self, context: ScenarioContext, record: Record, found: Audit) -> None:
        section = next(section for section in record.sections if section.buyer == VICTIM)
        read, commit = section.read_ms or 0.0, section.commit_ms or self._thawed_ms
        if not read < self._frozen_ms < self._thawed_ms <= commit:
            raise MistimedFault("it was not frozen between read and write")
