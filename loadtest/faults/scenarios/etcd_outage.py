"""etcd is away for longer than a lease lives."""

from __future__ import annotations

from loadtest.faults.context import Act
from loadtest.faults.scenario import Scenario
from loadtest.faults.testbed.protocols import TTL_S
from loadtest.results.audit import Audit
from loadtest.results.record import Record


class EtcdOutage(Scenario):
    """Nobody can have the lock, so nobody is sold anything, and everybody is told; then it goes on by itself."""

    name = "etcd-outage"
    what = "take etcd away for longer than the TTL, and bring it back"

    def play(self, act: Act) -> None:
        act.let_sell(20)
        act.arena.etcd.stop()
        down_ms = act.start.elapsed_ms()
        act.say("etcd is away")
        act.outlive_lease()
        self._away = (down_ms + TTL_S * 1000, act.start.elapsed_ms())
        act.arena.etcd.start()
        act.say("etcd is back")
        act.let_sell(20)

    def review(self, act: Act, record: Record, found: Audit) -> None:
        begin, end = self._away
        sold = sum(begin < section.entered_ms < end for section in record.sections)
        if act.uses_etcd:
            act.insist(sold == 0, f"{sold} critical sections began without etcd")
