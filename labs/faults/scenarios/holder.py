"""The holder of the lock dies, freezes, or is cut off when its write is under way."""

from __future__ import annotations

from typing import ClassVar

from app.contract.outcomes import Outcome
from labs.faults.context import VICTIM, ScenarioContext
from labs.faults.scenario import Expected, Scenario
from labs.faults.testbed import TTL_S
from labs.faults.threads import MistimedFault
from loadtest.results.audit import audit
from loadtest.results.record import Record
from loadtest.stack.proxy import REQUESTS

SLACK_S = 1.5  # etcd looks for expired leases twice a second, and this machine is busy
FROZEN_TIMEOUT_S = 60.0  # the buyer of the frozen holder asks nowhere else
THINK_MS = 1000


class KillHolder(Scenario):
    """Kill -9 of the instance that holds the lock, in the middle of the rush.

    Its lease frees the lock within the TTL. The buyer, whose answer died with it, asks the other shop.
    """

    name = "kill-holder"
    sort_key = 10

    def play(self, context: ScenarioContext) -> None:
        answer = context.start_holder(0, think_ms=1000)
        context.act(context.shops[0].instance.kill, "{item} is killed", item=context.shops[0].name)
        context.wait_for_sales()
        context.act(context.testbed.heal, "{shop} is started again", shop=context.shops[0].name)
        context.wait_for("an answer to the victim", answer.done)

    def review(self, context: ScenarioContext, record: Record) -> None:
        stall = audit(record).longest_stall_ms / 1000
        flaw = "nothing was sold for {s} s, with a TTL of {ttl} s"
        context.require_in_time(stall <= TTL_S + SLACK_S, flaw, s=round(stall, 1), ttl=TTL_S)


class PauseHolder(Scenario):
    """Freeze the holder between its read and its write, let others sell, thaw it.

    What a long garbage collection, a suspended laptop or a live migration does to a lock.

    Between its read and its write the holder stands still, until others have sold. A lock alone cannot prevent what
    it writes then; the guard has to notice that the lease is over, or Redis has to refuse the token.
    """

    name = "pause-holder"
    sort_key = 20
    unfenced = Expected.BREAKS
    exceptions: ClassVar = {"etcd-checked": Expected.EXACT}  # the check comes after the pause, and notices

    def play(self, context: ScenarioContext) -> None:
        answer = context.start_holder(0, think_ms=2000, timeout=FROZEN_TIMEOUT_S)
        shop = context.shops[0]
        context.act(shop.instance.pause, "{shop} is frozen", shop=shop.name)
        self._frozen_ms = context.start.elapsed_ms()
        context.let_others_buy()
        self._thawed_ms = context.start.elapsed_ms()
        context.act(shop.instance.resume, "{shop} is thawed, and goes on where it was", shop=shop.name)
        context.wait_for("an answer to the victim", answer.done)
        context.buyers.admission.set()
        if self.expected(context.guard) is Expected.EXACT:
            outcome = next(each.outcome for each in context.buyers.answers if each.buyer == VICTIM)
            require = context.require if outcome.is_served else context.require_in_time
            require(outcome is Outcome.LOCK_LOST, "the victim was told {outcome}", outcome=outcome.value)

    def review(self, context: ScenarioContext, record: Record) -> None:
        section = next(section for section in record.sections if section.buyer == VICTIM)
        read, commit = section.read_ms or 0.0, section.commit_ms or self._thawed_ms
        if not read < self._frozen_ms < self._thawed_ms <= commit:
            raise MistimedFault("it was not frozen between read and write")


class DelayedWrite(Scenario):
    """Cut the holder off when its write is under way; deliver the write when others have sold.

    The holder had every right to send it: the lease was alive, and a check on the instance says so. TCP delivers the
    write when the network is back; by then the lease has ended and others have sold. Only Redis can refuse it.
    """

    name = "delayed-write"
    sort_key = 30
    unfenced = Expected.BREAKS

    def play(self, context: ScenarioContext) -> None:
        shop = context.shops[0]
        answer = context.start_holder(0, think_ms=THINK_MS)
        shop.to_redis.stall(REQUESTS)
        self._stalled_ms = context.start.elapsed_ms()
        context.wait_for("the write", lambda: self._is_held_back(context) or not context.is_inside(VICTIM))
        if not self._is_held_back(context):
            raise MistimedFault("the write was on its way before the line was cut")
        self._seen_ms = context.start.elapsed_ms()
        context.buyers.retries.clear()
        context.act(shop.to_etcd.stall, "{shop} has sent its write and is cut off from the network", shop=shop.name)
        context.let_others_buy()
        context.act(shop.lines.resume, "the network is back, and delivers the write")
        context.buyers.retries.set()
        context.wait_for("an answer to the victim", answer.done)
        context.buyers.admission.set()

    def review(self, context: ScenarioContext, record: Record) -> None:
        section = next(section for section in record.sections if section.buyer == VICTIM)
        thought_until = section.entered_ms + THINK_MS
        if self._seen_ms < thought_until or (section.commit_ms or 0.0) < self._stalled_ms:
            raise MistimedFault("it was not the write that was held back")

    def _is_held_back(self, context: ScenarioContext) -> bool:
        """Whether something of the victim is under way to Redis: after the think time, its write."""
        return VICTIM.encode() in context.shops[0].to_redis.held_back(REQUESTS)
