"""The stages of the assignment, and what came of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Lost(Exception):
    """A stage is lost, for this reason."""


class CannotSell(Lost):
    """The guard sells nothing to anybody: no later stage can be run."""


class Status(str, Enum):
    """What came of a stage; only PASSED has points."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"  # an earlier stage says why
    NO_VERDICT = "no verdict"


@dataclass(frozen=True)
class Stage:
    """A stage: its points, and after how many seconds it is lost."""

    name: str
    title: str
    points: int
    seconds: float


@dataclass(frozen=True)
class Result:
    """What came of a stage, with what its author is told."""

    stage: Stage
    status: Status
    output: str = ""

    @property
    def score(self) -> int:
        return self.stage.points if self.status is Status.PASSED else 0


CONTRACT = Stage("contract", "It loads and keeps the contract", 10, 10.0)
ONE = Stage("one", "One buyer at a time", 10, 10.0)
RUSH = Stage("rush", "A rush of 60 buyers for 40 items", 20, 60.0)
ORDERS = Stage("orders", "Every order of two purchases, one item and two", 20, 90.0)
DEATH = Stage("death", "The same with a death", 15, 90.0)
LOST_ANSWER = Stage("lost", "The same with a lost answer", 10, 90.0)
PAUSE = Stage("pause", "The same with a pause past the lease", 15, 90.0)
STAGES = (CONTRACT, ONE, RUSH, ORDERS, DEATH, LOST_ANSWER, PAUSE)
