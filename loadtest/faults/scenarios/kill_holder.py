"""The holder dies."""

from __future__ import annotations

from loadtest.faults.context import ScenarioContext
from loadtest.faults.scenario import Scenario
from loadtest.faults.testbed.protocols import TTL_S
from loadtest.results.audit import Audit
from loadtest.results.record import Record

SLACK_S = 1.5  # etcd looks for expired leases twice a second, and this machine is busy


class KillHolder(Scenario):
    """Its lease frees the lock within the TTL. The buyer, whose answer died with it, asks the other shop."""

    name = "kill-holder"
    what = "kill -9 of the instance that holds the lock, in the middle of the rush"
    sharded = False

    def play(self, context: ScenarioContext) -> None:
        context.wait_for_sales(20)
        answer = context.start_holder(0, think_ms=1000)
        context.shops[0].instance.kill()
        context.announce("shop-a is killed")
        context.wait_for_sales(20)
        context.testbed.heal()
        context.announce("shop-a is started again")
        context.wait_for("an answer to the victim", answer.done)

    def review(self, context: ScenarioContext, record: Record, found: Audit) -> None:
        stall = found.longest_stall_ms / 1000
        context.require(stall <= TTL_S + SLACK_S, f"nothing was sold for {stall:.1f} s, with a TTL of {TTL_S} s")
