"""What a guard can reach at most, by the utilisation law: no server is busy for more than all of the time.

A click needs each server for a while, its *service demand* D. So at most X = 1 / max(D) clicks are answered per second.
If buyers wait Z between two clicks, some queue from N* = (sum(D) + Z) / max(D) buyers on. Source: Denning and Buzen,
"The Operational Analysis of Queueing Network Models", ACM Computing Surveys 10 (3), 1978.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from labs.bench.result import BenchResult, Row

MEASURED_WITH = 2  # instances


@dataclass(frozen=True)
class Demands:
    """Service demands of one click under a guard, in milliseconds; the mix of sold and sold out is that of the rush."""

    guard: str  # under which it was measured
    instance: float  # one Python process, which does one thing at a time; several instances divide it
    # Of the servers that all instances share: etcd, which uses all CPUs of its machine; Redis, which uses one; the
    # lock, which is held or handed over.
    shared: dict[str, float]

    @classmethod
    def of(cls, row: Row, *, handover_ms: float, cpus: int) -> Demands:
        """The demands that a row shows; the time of a hand-over is measured apart, since it is not CPU time."""
        shared = {
            "etcd": row.cpu_ms["etcd"] / cpus,
            "Redis": row.cpu_ms["redis"],
            "the lock": row.locked_ms + row.etcd_puts * handover_ms,
        }
        return cls(row.case.guard, row.cpu_ms["instances"], shared)

    @property
    def bottleneck(self) -> str:
        """The shared server that the most instances cannot relieve."""
        return max(self.shared, key=lambda name: self.shared[name])

    @property
    def enough_instances(self) -> int:
        """The number of instances from which on more do not help, because the bottleneck is shared."""
        largest = self.shared[self.bottleneck]
        return math.ceil(self.instance / largest) if largest else 0

    def ceiling(self, instances: int) -> float:
        """Clicks per second at most, if each server has its own machine."""
        return 1000 / self._largest(instances)

    def saturation(self, instances: int, think_s: float) -> float:
        """N*: the number of buyers from which on some queue, if each waits so many seconds between two clicks."""
        return (self.instance + sum(self.shared.values()) + 1000 * think_s) / self._largest(instances)

    def _largest(self, instances: int) -> float:
        return max(self.instance / instances, *self.shared.values())


def demands(result: BenchResult) -> list[Demands]:
    """The demands of each guard in the rush, at two instances on a CPU each; none if it was not measured."""
    if not result.handover_ms:
        return []
    rows = result.part("rush")
    rows = [row for row in rows if row.case.pinned] or rows  # as the local stack runs its instances
    return [Demands.of(row, handover_ms=result.handover_ms, cpus=result.cpus) for row in rows]
