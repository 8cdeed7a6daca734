"""etcd is unavailable for longer than a lease lives."""

from __future__ import annotations

from loadtest.faults.context import ScenarioContext
from loadtest.faults.scenario import Scenario
from loadtest.faults.testbed.protocols import TTL_S
from loadtest.results.audit import Audit
from loadtest.results.record import Record


class EtcdOutage(Scenario):
    """Without a lock nothing is sold, and every buyer is told so. Then the sale goes on by itself."""

    name = "etcd-outage"
    what = "take etcd away for longer than the TTL, and bring it back"

    def play(self, context: ScenarioContext) -> None:
        context.wait_for_sales(20)
        context.testbed.etcd.stop()
        down_ms = context.start.elapsed_ms()
        context.announce("etcd is stopped")
        context.wait_out_lease()
        self._away = (down_ms + TTL_S * 1000, context.start.elapsed_ms())
        context.testbed.etcd.start()
        context.announce("etcd is back")
        context.wait_for_sales(20)

    def review(self, context: ScenarioContext, record: Record, found: Audit) -> None:
        begin, end = self._away
        sold = sum(begin < section.entered_ms < end for section in record.sections)
        if context.uses_etcd:
            context.require(sold == 0, f"{sold} critical sections began without etcd")
