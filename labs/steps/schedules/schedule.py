"""A schedule: which purchase goes on, step by step, with a fault at most; and what came of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum

from app.contract.orders import Order
from app.contract.verdict import Verdict
from loadtest.results.answer import Answer
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
    """What is done to a purchase that stands at a point or before a command."""

    NONE = "none"
    PAUSE = "pause"
    KILL = "kill"
    KILL_SENT = "kill-sent"  # behind its command, whose answer is still out
    LOST = "lost"


@dataclass(frozen=True)
class Move:
    """A step of a purchase to its next stop, or a fault: an answer is lost, or a process ends, in a step."""

    buyer: str
    fault: Fault = Fault.NONE

    def __str__(self) -> str:
        """As it stands in the address of the scheduler's page."""
        return f"{self.buyer}-{self.fault.value}" if self.is_fault else self.buyer

    @property
    def is_fault(self) -> bool:
        return self.fault is not Fault.NONE


@dataclass(frozen=True)
class Done:
    """A move that was made."""

    move: Move
    point: str  # where the purchase was then, or where it had been if it waits
    waits: bool
    command: str = ""  # that was sent
    failure: str = ""  # the error with which its guard ended, if it is none that guards are expected to raise
    answer: str = ""  # the outcome that its buyer was told in this move
    begins: bool = False  # it stood before the guard
    line: int | None = None  # of the guard's file, on which it stood before

    @property
    def words(self) -> str:
        """Such as "A read", or "A GET stock"."""
        if self.move.fault is Fault.PAUSE:
            return f"{self.move.buyer} is paused beyond its lease"
        if self.move.fault is Fault.KILL:
            return f"{self.move.buyer} is killed"
        ends = {Fault.LOST: ", answer lost", Fault.KILL_SENT: ", and is killed"}.get(self.move.fault, "")
        ends += f", fails: {self.failure}" if self.failure else f", told {self.answer}" if self.answer else ""
        does = brief(self.command) if self.command else "waits" if self.waits else STEPS.get(self.point, self.point)
        does = f"begins{', waits' if self.waits else ''}" if self.begins else does
        return f"{self.move.buyer} {does}{', waits' if self.waits and self.command else ''}{ends}"


def hides_behind_lost_answer(moves: Sequence[Done]) -> bool:
    """Whether a purchase that had left its section was told of an error, as the answer to its release was lost."""
    left: set[str] = set()
    for done in moves:
        if done.move.fault is Fault.LOST and done.move.buyer in left and done.answer not in ("sold", ""):
            return True
        if done.point == "left":
            left.add(done.move.buyer)
    return False


def brief(command: str) -> str:
    """The beginning of a command, with the last part of its key: "SET lock"."""
    name, *arguments = command.partition(";")[0].split()
    if name.startswith("EVAL"):
        return arguments[0] if arguments else name
    if name == "Txn":
        return " ".join(["Txn", *(word for word in arguments if word in ("put", "delete_range", "range"))][:2])
    return f"{name} {re.split(r'[:/]', arguments[0].strip(chr(39)))[-1]}" if arguments else name


WORST_FIRST = ("oversold", "deadlock", "errors", "unsold", "told_wrong", "lost_updates")


@dataclass(frozen=True)
class Ending:
    """What came of a schedule, in numbers of orders, sales and answers; all are 0 where all is well."""

    oversold: int = 0  # orders beyond the items
    lost_updates: int = 0  # sales missing from the counter
    told_wrong: int = 0  # answers that ledger, real time or fence contradict
    unsold: int = 0  # items that were lost, or, without a fault, that a buyer did not get
    deadlock: int = 0  # purchases that wait, with nobody left to wake them
    errors: int = 0  # internal errors without a fault, and answers that are no receipt

    @classmethod
    def of(
        cls, verdict: Verdict, *, vanished: int, premature: int, has_fault: bool, deadlock: int, errors: int
    ) -> Ending:
        wrong = ("missing", "contradicted", "duplicates", "out_of_order", "past_fence")
        return cls(
            oversold=verdict.oversold,
            lost_updates=verdict.lost_updates,
            told_wrong=sum(getattr(verdict, name) for name in wrong) + max(verdict.premature, premature),
            # Who gave up while others bought was too slow, and said so.
            unsold=max(vanished, 0)
            if has_fault or deadlock
            else max(verdict.undersold - (verdict.gave_up if verdict.sold else 0), 0),
            deadlock=deadlock,
            errors=errors,
        )

    @property
    def kinds(self) -> dict[str, int]:
        """In which ways it is wrong: 1 for each of them, and for "wrong"."""
        kinds = {name: 1 for name, number in asdict(self).items() if number}
        return {**kinds, "wrong": 1} if kinds else {}

    @property
    def ways(self) -> tuple[str, ...]:
        """In which ways it is wrong, the worst first; a cause is left out where its effect stands."""
        names = [name for name in WORST_FIRST if getattr(self, name)]
        return tuple(name for name in names if name != "lost_updates" or not self.oversold)

    @property
    def is_right(self) -> bool:
        return not any(asdict(self).values())


@dataclass(frozen=True)
class Schedule:
    """A schedule that was tried."""

    guard: str
    moves: Sequence[Done]
    ending: Ending
    stock_left: int  # what the counter said in the end
    answers: Sequence[Answer] = field(default=(), repr=False)  # these three as in a record, for the slow motion
    ledger: Sequence[Order] = field(default=(), repr=False)
    sections: Sequence[CriticalSection] = field(default=(), repr=False)

    @property
    def path(self) -> str:
        """For the address of the scheduler's page."""
        return ".".join(str(done.move) for done in self.moves)

    @property
    def words(self) -> list[str]:
        """All moves in words."""
        return [done.words for done in self.moves]


def moves_of(path: str) -> list[Move]:
    """The moves of a path; raises ValueError."""
    parts = [part.partition("-") for part in path.split(".")]
    return [Move(buyer, Fault(fault) if fault else Fault.NONE) for buyer, _, fault in parts]
