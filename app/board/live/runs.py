"""One run of the sale, from its reset to the next one: its orders, critical sections and verdict."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from app.board.sources.ledger import LedgerReading
from app.contract.clock import now_ns
from app.contract.orders import Order
from app.contract.outcomes import ANSWERS, Outcome
from app.contract.section_log import LoggedSection
from app.contract.verdict import Verdict
from app.sales.snapshot import SaleSnapshot

MOST_SECTIONS = 20_000  # and orders that are kept of a run
QUIET_S = 1.0  # a run is over when nothing has happened for so long, and no request is in hand
_SECTION = ("number", "order", "item", "buyer", "instance", "pid", "thread", "token", "outcome", "cause")


@dataclass
class SaleRun:
    """One run.

    Attributes:
        generation: Redis's clock at the reset, in microseconds since the epoch.
        slack_ns: how long before it its first sections may have begun.
        sections: by their number.
        orders: the ids of the first ones, as they were written.
        cut: whether there were more sections than are kept.
        over: whether all buyers have their answers, as far as the heartbeats show.
        unanswered: requests that processes had in hand when they died.
    """

    generation: str
    snapshot: SaleSnapshot
    slack_ns: int = 0
    sections: dict[int, LoggedSection] = field(default_factory=dict)
    orders: list[str] = field(default_factory=list)
    cut: bool = False
    over: bool = False
    unanswered: int = 0

    def __post_init__(self) -> None:
        self.began_ns = now_ns() - int((time.time() - int(self.generation) / 1e6) * 1e9)  # by the clock of sections
        self._guards: set[str] = set()
        self._by_instance: Counter[str] = Counter()
        self._times: tuple[float, float] | None = None  # of the first order and the last
        self._outcomes: Counter[str] = Counter()
        self._changed = time.monotonic()

    def add_orders(self, orders: Iterable[Order]) -> None:
        for order in orders:
            if len(self.orders) < MOST_SECTIONS:
                self.orders.append(order.order)
            self._guards.add(order.guard)
            self._by_instance[order.instance] += 1
            first, last = self._times or (order.at_ms, order.at_ms)
            self._times = min(first, order.at_ms), max(last, order.at_ms)
            self._changed = time.monotonic()

    def add_sections(self, sections: Iterable[LoggedSection]) -> list[LoggedSection]:
        """Keep the sections of this run, and return those that are kept; the others belong to an earlier run."""
        kept = []
        for section in sections:
            if section.entered < self.began_ns - self.slack_ns:
                continue
            if section.number in self.sections or len(self.sections) < MOST_SECTIONS:
                self.sections[section.number] = section
                kept.append(section)
            else:
                self.cut = True
        return kept

    def answered(self, outcomes: Counter[str], *, in_hand: int, lost: int) -> None:
        """Find out whether the run is over.

        Args:
            outcomes: of all its purchases so far.
            in_hand: requests that may still be answered.
            lost: requests of processes that died.
        """
        self.unanswered = lost
        if outcomes != self._outcomes:
            self._outcomes, self._changed = outcomes, time.monotonic()
        if time.monotonic() - self._changed < QUIET_S:
            self.over = False
        elif not in_hand and outcomes:
            self.over = True

    def end(self, at_ns: int, ended: LedgerReading | None) -> list[LoggedSection]:
        """Add the last orders, if Redis has them; return the sections since `at_ns`, which are the next run's."""
        self.over = True
        if ended is not None:
            self.snapshot = ended.snapshot
            self.add_orders(ended.new)
        later = [section for section in self.sections.values() if section.entered >= at_ns]
        for section in later:
            del self.sections[section.number]
        return later

    @property
    def guard(self) -> str | None:
        """The guard under which items were sold; "mixed" if there were several, `None` if there was none."""
        return "mixed" if len(self._guards) > 1 else next(iter(self._guards), None)

    @property
    def verdict(self) -> Verdict:
        """The verdict: the load test's once the run is over; before, what the ledger alone shows."""
        if not self.over:
            return self.snapshot.judge()
        counts = {each: self._outcomes[each.value] for each in ANSWERS}
        gave_up = counts[Outcome.LOCK_TIMEOUT]
        served = counts[Outcome.SOLD] + counts[Outcome.SOLD_OUT]
        refused = self._outcomes.total() - served - gave_up
        return self.snapshot.judge(gave_up=gave_up, refused=refused, unanswered=self.unanswered)

    def summary(self) -> dict[str, Any]:
        now, verdict = self.snapshot, self.verdict
        return {
            "generation": self.generation,
            "guard": self.guard,
            "initial": now.initial,
            "stock": now.stock,
            "orders": now.orders,
            "lost_updates": verdict.lost_updates,
            "gave_up": self._outcomes[Outcome.LOCK_TIMEOUT.value],
            "verdict": verdict.sentence,
            "findings": verdict.findings,
            "kind": verdict.kind.value,
            "exact": verdict.exact,
            "over": self.over or now.stock <= 0,
            "selling_ms": self._times[1] - self._times[0] if self._times else None,
            "by_instance": dict(sorted(self._by_instance.items())),
            "cut": self.cut,
        }

    def rows(self, sections: Iterable[LoggedSection]) -> list[dict[str, Any]]:
        """Critical sections as the page reads them, with their times in milliseconds since the reset."""
        return [
            {name: getattr(each, name) for name in _SECTION}
            | {"entered_ms": self.ms(each.entered), "left_ms": self.ms(each.left)}
            for each in sections
        ]

    def films(self) -> list[dict[str, Any]]:
        """All rows with what slow motion needs: lines, points, and the stock read and written."""
        sections = self.sections.values()
        return [row | self._film(each) for row, each in zip(self.rows(sections), sections, strict=True)]

    def _film(self, each: LoggedSection) -> dict[str, Any]:
        entered = self.began_ns if each.entered is None else each.entered
        points = [
            {"name": name, "line": line, "at_ms": self.ms(entered + after * 1000)} for name, line, after in each.points
        ]
        times = {"read_ms": self.ms(each.read_at), "commit_ms": self.ms(each.commit_at)}
        return {**times, "line": each.line, "stock": each.stock, "stock_read": each.stock_read, "points": points}

    def ms(self, at_ns: int | None) -> float | None:
        """A time of `app.contract.clock` as milliseconds since the reset."""
        return None if at_ns is None else round((at_ns - self.began_ns) / 1e6, 3)
