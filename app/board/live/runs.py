"""One run of the sale, from its reset to the next one: what was sold, and who was in the critical section when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from app.board.sources.ledger import Ended, Order
from app.board.sources.section_tail import Section, of_epoch
from app.clock import now_ns
from app.sales.sale import Snapshot

MOST_ROWS = 20_000  # sections, and samples, that are kept of a run
MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Sample:
    """The sale at one moment, in milliseconds since the reset; None is what was out of reach."""

    at_ms: float
    stock: int | None
    orders: int | None
    holder: str | None
    waiters: int | None


@dataclass
class Run:
    """One run.

    Attributes:
        generation: Redis's clock at the reset, in microseconds since the epoch.
        slack_ns: by how much its first sections may have begun before it.
        sections: by their number.
        cut: whether there were more sections or samples than are kept.
    """

    generation: str
    snapshot: Snapshot
    slack_ns: int = 0
    orders: list[Order] = field(default_factory=list)
    sections: dict[int, Section] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    cut: bool = False

    def __post_init__(self) -> None:
        self.began_s = int(self.generation) / 1e6
        self.began_ns = of_epoch(self.began_s)

    def add_sections(self, sections: Iterable[Section]) -> list[Section]:
        """Those that are this run's, which are kept; the others are of a run before."""
        own = [section for section in sections if section.entered >= self.began_ns - self.slack_ns]
        for section in own:
            if section.number in self.sections or len(self.sections) < MOST_ROWS:
                self.sections[section.number] = section
            else:
                self.cut = True
        return own

    def end(self, at_ns: int, ended: Ended | None) -> list[Section]:
        """The run was over at `at_ns`, and came to what Redis tells, if it does.

        Returns:
            The sections that had begun by then, which are the next run's.
        """
        if ended is not None:
            self.snapshot = ended.snapshot
            self.orders += ended.rest
        later = [section for section in self.sections.values() if section.entered >= at_ns]
        for section in later:
            del self.sections[section.number]
        return later

    def add_sample(self, holder: str | None, waiters: int | None, *, known: bool) -> None:
        """Keep how the sale stands now, if that is news; what Redis holds is `known` while it answers."""
        stock, orders = (self.snapshot.stock, self.snapshot.orders) if known else (None, None)
        sample = Sample(self.ms(now_ns()) or 0.0, stock, orders, holder, waiters)
        if self.samples and replace(self.samples[-1], at_ms=sample.at_ms) == sample:
            return
        if len(self.samples) < MOST_ROWS:
            self.samples.append(sample)
        else:
            self.cut = True

    @property
    def guard(self) -> str | None:
        """Under which guard items were sold; None if none was."""
        guards = {order.guard for order in self.orders}
        return guards.pop() if len(guards) == 1 else (MIXED if guards else None)

    def counters(self) -> dict[str, Any]:
        """How the sale stands, judged by its ledger."""
        now = self.snapshot
        return {
            "generation": self.generation,
            "initial": now.initial,
            "stock": now.stock,
            "orders": now.orders,
            "lost_updates": now.lost_updates,
            "verdict": now.verdict,
            "cut": self.cut,
        }

    def summary(self) -> dict[str, Any]:
        """The run as one card on the board."""
        times = [order.at_ms for order in self.orders]
        overlapping, most = overlaps(self.sections.values())
        return {
            **self.counters(),
            "guard": self.guard,
            "selling_ms": max(times) - min(times) if times else None,
            "by_instance": dict(sorted(Counter(order.instance for order in self.orders).items())),
            "sections": len(self.sections),
            "overlapping": overlapping,
            "most_at_once": most,
            "ended_at": datetime.fromtimestamp(max(times) / 1000, timezone.utc).isoformat() if times else None,
        }

    def ms(self, at_ns: int | None) -> float | None:
        """A time of `app.clock` as milliseconds since the reset."""
        return None if at_ns is None else round((at_ns - self.began_ns) / 1e6, 3)


def overlaps(sections: Iterable[Section]) -> tuple[int, int]:
    """How many sections were not alone at some time, and how many there were at once at most."""
    ends: list[tuple[int, int, int]] = []
    for section in sections:
        if section.left is not None:
            ends += ((section.entered, 1, section.number), (section.left, -1, section.number))
    inside: set[int] = set()
    overlapping: set[int] = set()
    most = 0
    for _, change, number in sorted(ends):
        if change < 0:
            inside.discard(number)
            continue
        inside.add(number)
        most = max(most, len(inside))
        if len(inside) > 1:
            overlapping |= inside if len(inside) == 2 else {number}
    return len(overlapping), most
