"""The holder's write is late, although the holder was not."""

from __future__ import annotations

from loadtest.faults.context import VICTIM, ScenarioContext
from loadtest.faults.scenario import Expected, Scenario
from loadtest.faults.threads import MistimedFault
from loadtest.results.audit import Audit
from loadtest.results.record import Record
from loadtest.stack.proxy import REQUESTS

THINK_MS = 1000


class DelayedWrite(Scenario):
    """The instance is cut off from the network at the moment in which it has sent its write.

    It had every right to send it: the lease was alive, and a check on the instance says so. TCP delivers the write when
    the network is back; by then the lease has ended and others have sold. Only Redis can refuse it.
    """

    name = "delayed-write"
    what = "cut the holder off when its write is under way; deliver the write when others have sold"
    sharded = False
    lines = True
    unfenced = Expected.BREAKS

    def play(self, context: ScenarioContext) -> None:
        shop = context.shops[0]
        context.wait_for_sales(20)
        answer = context.start_holder(0, think_ms=THINK_MS)
        shop.to_redis.stall(REQUESTS)
        self._stalled_ms = context.start.elapsed_ms()
        context.wait_for("the write", lambda: self._is_held_back(context) or not context.is_inside(VICTIM))
        if not self._is_held_back(context):
            raise MistimedFault("the write was on its way before the line was cut")
        self._seen_ms = context.start.elapsed_ms()
        context.buyers.hold_retries()
        shop.to_etcd.stall()
        context.announce("shop-a has sent its write and is cut off from the network")
        context.wait_for_sales(20)
        context.settle()
        shop.lines.resume()
        context.announce("the network is back, and delivers the write")
        context.buyers.allow_retries()
        context.wait_for("an answer to the victim", answer.done)
        context.buyers.go_on()

    def review(self, context: ScenarioContext, record: Record, found: Audit) -> None:
        section = next(section for section in record.sections if section.buyer == VICTIM)
        thought_until = section.entered_ms + THINK_MS
        if self._seen_ms < thought_until or (section.commit_ms or 0.0) < self._stalled_ms:
            raise MistimedFault("it was not the write that was held back")

    def _is_held_back(self, context: ScenarioContext) -> bool:
        """Whether something of the victim is under way to Redis: after the think time, its write."""
        return VICTIM.encode() in context.shops[0].to_redis.held_back(REQUESTS)
