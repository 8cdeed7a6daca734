"""What a case is: it drives contenders into a situation, and judges what was seen there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from labs.libraries.trial import LockTrial

Evidence = dict[str, Any]
SLACK_S = 0.8  # by how much an answer may be late on a machine with other work, besides what was measured


class CellAnswer(str, Enum):
    """How a case came out: whether what it tests was seen."""

    YES = "yes"
    PARTLY = "partly"
    NO = "no"
    NOT_OFFERED = "not offered"  # the documented interface has nothing to try
    FIGURE = "figure"  # measured, not judged


@dataclass(frozen=True)
class Finding:
    """The outcome of one run for one column.

    Attributes:
        seen: a key of ``words.json``, under "seen".
        about: the values of its sentence.
    """

    answer: CellAnswer
    seen: str
    about: dict[str, Any] = field(default_factory=dict)


NOT_OFFERED = Finding(CellAnswer.NOT_OFFERED, "not_offered")


def yes(seen: str, **about: Any) -> Finding:
    """What was tested was seen."""
    return Finding(CellAnswer.YES, seen, about)


def partly(seen: str, **about: Any) -> Finding:
    """It was seen in part."""
    return Finding(CellAnswer.PARTLY, seen, about)


def no(seen: str, **about: Any) -> Finding:
    """It was not seen."""
    return Finding(CellAnswer.NO, seen, about)


def figure(seen: str, **about: Any) -> Finding:
    """A measurement."""
    return Finding(CellAnswer.FIGURE, seen, about)


class LockCase(ABC):
    """One situation. Subclasses say how to get into it, and how to judge it.

    Attributes:
        name: for ``--cases``.
        columns: of the table; each has its texts in ``words.json``.
        races: whether chance decides, so that it always runs three times.
        alone: whether nothing else may run at the same time.
    """

    name: str
    columns: tuple[str, ...]
    races = False
    alone = False

    @abstractmethod
    def drive(self, trial: LockTrial) -> Evidence:
        """Bring it about, and say what was seen; raises CaseFailed."""

    @abstractmethod
    def judge(self, evidence: Evidence) -> tuple[Finding, ...]:
        """A finding for each column."""
