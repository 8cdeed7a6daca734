"""What came of a guard, as rows of a table and as a file for the pages: ``reports/NAME/schedules-GUARD.json``.

The file has the graph of each kind of fault. States are told by numbers: of the rows of purchases, which many states
share, and of the states that the moves lead to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from app.contract.outcomes import Promise
from app.contract.section_log import GuardSource
from labs.steps.schedules.files import PREFIX
from labs.steps.schedules.graph import Graph
from labs.steps.schedules.purchases import PURCHASE
from labs.steps.schedules.schedule import Fault, Schedule
from loadtest.results.record import CriticalSection

SECTION = ("buyer", "instance", "token", "outcome", "cause", "entered_ms", "read_ms", "commit_ms", "left_ms")
COLUMNS = (*SECTION, "line", "stock", "stock_read", "order")  # of a section, as the page names them; then its points
WRONG = ("oversold", "lost_updates", "told_wrong", "unsold", "deadlock", "errors")


@dataclass
class Count:
    """The orders of a guard with one kind of fault."""

    guard: str
    promise: str
    fault: str  # the name of the budget
    items: int = 1  # for sale
    pauses: bool = False  # whether a pause is among the faults
    states: int = 0
    orders: int = 0  # paths to an end; of those to a wrong one, in which way
    oversold: int = 0
    lost_updates: int = 0
    told_wrong: int = 0
    unsold: int = 0
    deadlock: int = 0
    errors: int = 0
    wrong: int = 0
    ends: int = 0  # different ones
    wrong_ends: int = 0
    cut: int = 0  # states in which something was not tried; 0 is complete
    no_verdict: str = ""  # why the exploration ended early, if it did
    seconds: float = 0.0
    shortest: Sequence[Schedule] = ()  # for each way of ending wrongly

    def note(
        self, graph: Graph, schedules: Mapping[int, Schedule], seconds: float, shortest: Sequence[Schedule] = ()
    ) -> None:
        """Take the numbers of a graph that is explored, or on its way."""
        orders = graph.orders()
        self.states, self.orders, self.wrong = len(graph.states), orders["all"], orders["wrong"]
        for name in WRONG:
            setattr(self, name, orders[name])
        ends = graph.ends
        self.ends, self.wrong_ends = len(ends), sum(bool(end.ending and end.ending.kinds) for end in ends)
        self.cut, self.seconds = graph.cut, round(seconds, 1)
        self.shortest = tuple(shortest) or tuple(
            replace(schedules[end.number], moves=moves) for end, moves in islice(graph.shortest_of_each(), 1)
        )

    @property
    def is_promised(self) -> bool:
        """Whether the guard promises that none of these orders ends wrongly."""
        return self.promise == Promise.EXACT or (self.promise != Promise.NONE and not self.pauses)

    @property
    def kept(self) -> bool:
        return not (self.is_promised and self.wrong_ends)


@dataclass
class Exploration:
    """What came of a guard."""

    guard: str
    promise: str
    grain: str  # where purchases stopped, see `labs.steps.stepped`
    items: int
    buyers: int
    started: str
    description: str = ""  # what the guard does
    found: str = ""  # where a mistake was seen
    source: GuardSource | None = None  # of the guard's `buy`
    counts: list[Count] = field(default_factory=list)
    graphs: list[dict[str, Any]] = field(default_factory=list)  # one for each count, see `packed`

    @property
    def kept(self) -> bool:
        return all(count.kept for count in self.counts)

    @property
    def is_cut(self) -> bool:
        return any(count.cut or count.no_verdict for count in self.counts)

    def add(self, count: Count, graph: dict[str, Any]) -> None:
        """Keep what came of an exploration; those without a fault stand first, and of each fault the smallest."""
        faults = [fault.value for fault in Fault]
        rows = [*zip(self.counts, self.graphs, strict=True), (count, graph)]
        rows.sort(key=lambda row: (faults.index(row[0].fault), row[0].items))
        self.counts, self.graphs = map(list, zip(*rows, strict=True))

    def write(self, report: Path) -> Path:
        """Write its file into `report`; raises OSError."""
        path = report / f"{PREFIX}{self.guard}.json"
        counts = [{**vars(count), "shortest": next((each.path for each in count.shortest), None),
                   "wrong_orders": [each.path for each in count.shortest]} for count in self.counts]  # fmt: skip
        kept = {**vars(self), "source": self.source and asdict(self.source), "counts": counts}
        kept |= {"columns": COLUMNS, "purchase": PURCHASE}
        path.write_bytes(msgspec.json.encode(kept))
        return path


def packed(graph: Graph, schedules: Mapping[int, Schedule], *, fault: str = Fault.NONE.value) -> dict[str, Any]:
    """A graph for the pages.

    ``rows`` are purchases, their columns in `PURCHASE`. A state is ``[row of A, row of B, ..., stock, orders, fence,
    queue]``; ``moves`` has for each state where its moves lead, ``ends`` the film of each end by its state, see `film`.
    """
    rows: dict[tuple[Any, ...], int] = {}
    states, moves = [], []
    for state in graph.states:
        shown = state.shown
        places = [rows.setdefault(row, len(rows)) for row in shown.purchases]
        states.append([*places, shown.stock, shown.orders, shown.fence, shown.queue])
        moves.append({str(move): to.number for move, to in state.moves.items() if to is not None})
    cut = [state.number for state in graph.states if state.is_open]
    ends = {str(number): film(schedule) for number, schedule in schedules.items()}
    return {"fault": fault, "rows": list(rows), "states": states, "moves": moves, "cut": cut, "ends": ends}


def film(schedule: Schedule) -> list[Any]:
    """Moves, in words too, ending, counter, orders, sections, answers: of the order that led there first."""
    return [
        [str(done.move) for done in schedule.moves],
        [done.words for done in schedule.moves],
        [getattr(schedule.ending, name) for name in WRONG],
        schedule.stock_left,
        [entry.order for entry in schedule.ledger],
        [_packed(section) for section in schedule.sections],
        [[answer.buyer, answer.outcome.value] for answer in schedule.answers],
    ]


def _packed(section: CriticalSection) -> list[Any]:
    points = [[point.name, point.line, point.at_ms] for point in section.points]
    return [*(getattr(section, name) for name in COLUMNS), points]
