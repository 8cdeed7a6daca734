"""etcd restarts, and is back before a lease can end."""

from __future__ import annotations

from loadtest.faults.context import ScenarioContext
from loadtest.faults.scenario import Scenario
from loadtest.results.answer import Outcome
from loadtest.results.audit import Audit
from loadtest.results.record import Record


class RestartEtcd(Scenario):
    """Leases and places in the queue are on etcd's disk: the sale goes on where it was, and no lock is lost."""

    name = "restart-etcd"
    what = "stop etcd and start it again within the TTL"
    ttl_s = 6  # a start takes two seconds, and more on a busy machine

    def play(self, context: ScenarioContext) -> None:
        context.wait_for_sales(20)
        down_ms = context.start.elapsed_ms()
        context.testbed.etcd.stop()
        context.announce("etcd is stopped")
        context.testbed.etcd.start()
        self._away_s = (context.start.elapsed_ms() - down_ms) / 1000
        context.announce(f"etcd is back, within a TTL of {self.ttl_s} s")
        context.wait_for_sales(20)

    def review(self, context: ScenarioContext, record: Record, found: Audit) -> None:
        lost = sum(answer.outcome == Outcome.LOCK_LOST.value for answer in record.answers)
        context.require(self._away_s < self.ttl_s, f"etcd was away for {self._away_s:.1f} s, and not within the TTL")
        context.require(lost == 0, f"{lost} buyers were told that the lock was lost")
