"""A schedule: which purchase goes on, step by step, with a fault at most; and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from itertools import groupby

from app.contract.verdict import Verdict
from loadtest.results.answer import Answer
from loadtest.results.entry import Entry
from loadtest.results.record import CriticalSection

STEPS = {  # what a purchase does on its way to a point, by that point; see `labs.steps.shop`
    "locked": "enters",
    "read": "read",
    "think": "thinks",
    "write": "checks",
    "left": "write",
    "over": "leaves",
}


class Fault(str, Enum):
    """What is done to a purchase that stands at a point, once in a schedule."""

    NONE = "none"
    PAUSE = "pause"
    KILL = "kill"
    LOST = "lost"


@dataclass(frozen=True)
class Move:
    """A step of a purchase to its next point, or a fault; an answer is lost in a step."""

    buyer: str
    fault: Fault = Fault.NONE

    def __str__(self) -> str:
        """As it stands in the address of the scheduler's page."""
        return self.buyer if self.fault is Fault.NONE else f"{self.buyer}-{self.fault.value}"


@dataclass(frozen=True)
class Done:
    """A move that was made.

    Attributes:
        point: where the purchase was then, or where it had been if it waits.
        waits: whether it is known to wait.
    """

    move: Move
    point: str
    waits: bool

    @property
    def matters(self) -> bool:
        return self.waits or self.move.fault is not Fault.NONE or self.point in ("read", "left")

    @property
    def words(self) -> str:
        """Such as "A read"."""
        if self.move.fault is Fault.PAUSE:
            return f"{self.move.buyer} is paused beyond its lease"
        if self.move.fault is Fault.KILL:
            return f"{self.move.buyer} is killed"
        lost = ", answer lost" if self.move.fault is Fault.LOST else ""
        return f"{self.move.buyer} {'waits' if self.waits else STEPS.get(self.point, self.point)}{lost}"


@dataclass(frozen=True)
class Ending:
    """What came of a schedule, in numbers of orders, sales and answers; all are 0 where all is well.

    Attributes:
        oversold: orders beyond the items.
        lost_updates: sales missing from the counter.
        told_wrong: answers that ledger, real time or fence contradict.
        unsold: items that were lost, or, without a fault, that a buyer did not get.
    """

    oversold: int = 0
    lost_updates: int = 0
    told_wrong: int = 0
    unsold: int = 0

    @classmethod
    def of(cls, verdict: Verdict, *, vanished: int, fault: Fault) -> Ending:
        wrong = ("missing", "contradicted", "duplicates", "out_of_order", "premature", "past_fence")
        return cls(
            oversold=verdict.oversold,
            lost_updates=verdict.lost_updates,
            told_wrong=sum(getattr(verdict, name) for name in wrong),
            unsold=verdict.undersold if fault is Fault.NONE else max(vanished, 0),
        )

    @property
    def is_right(self) -> bool:
        return not any(asdict(self).values())


@dataclass(frozen=True)
class Schedule:
    """A schedule that was tried.

    Attributes:
        moves: all of them, in order.
        stock_left: what the counter said in the end.
        answers, ledger, sections: as in a record, for the slow motion.
    """

    guard: str
    fault: Fault
    moves: Sequence[Done]
    ending: Ending
    stock_left: int
    answers: Sequence[Answer] = field(default=(), repr=False)
    ledger: Sequence[Entry] = field(default=(), repr=False)
    sections: Sequence[CriticalSection] = field(default=(), repr=False)

    @property
    def path(self) -> str:
        """For the address of the scheduler's page."""
        return ".".join(str(done.move) for done in self.moves)

    @property
    def line(self) -> str:
        """The moves that matter, in words: reads, writes, waits and the fault, with the place where it came."""
        last = max((place for place, done in enumerate(self.moves) if done.point == "left"), default=len(self.moves))
        following = [*self.moves[1:], None]
        shown = [
            done.words
            for done, after in zip(self.moves[: last + 1], following, strict=False)
            if done.matters or (after and after.move.fault in (Fault.PAUSE, Fault.KILL))
        ]
        return " · ".join(shown)

    @property
    def size(self) -> tuple[int, int]:
        """By which the shortest schedule is found: how often another purchase goes on, and the steps."""
        return len(list(groupby(done.move for done in self.moves))), len(self.moves)


def moves_of(path: str) -> list[Move]:
    """The moves of a path; raises ValueError."""
    parts = [part.partition("-") for part in path.split(".")]
    return [Move(buyer, Fault(fault) if fault else Fault.NONE) for buyer, _, fault in parts]
