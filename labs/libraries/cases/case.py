"""What a case is: it drives contenders into a situation, and answers for each of its columns what was seen there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from labs.libraries.trial import LockTrial

SLACK_S = 0.8  # by how much an answer may be late on a machine with other work, besides what was measured


class CellAnswer(str, Enum):
    """How a case came out: whether what it tests was seen."""

    NO = "no"
    PARTLY = "partly"
    BY_HAND = "by hand"  # the library has a call for it, and leaves it to its user to make it in time
    BLOCKS = "blocks everyone"  # the holder that stands still keeps the lock, so nothing was there to test
    YES = "yes"
    NOT_OFFERED = "not offered"  # the documented interface has nothing to try
    FIGURE = "figure"  # measured, not judged


@dataclass(frozen=True)
class Finding:
    """The outcome of one run for one column; `seen` names a sentence of ``words.json``, and `about` has its values."""

    answer: CellAnswer
    seen: str
    about: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, answer: CellAnswer, seen: str, **about: Any) -> Finding:
        return cls(answer, seen, about)


no, partly, yes, figure = (
    partial(Finding.of, answer) for answer in (CellAnswer.NO, CellAnswer.PARTLY, CellAnswer.YES, CellAnswer.FIGURE)
)
NOT_OFFERED = Finding(CellAnswer.NOT_OFFERED, "not_offered")


@dataclass(frozen=True)
class LockCase:
    """One situation: `run` brings it about, and returns a finding for each column; it raises NotTried."""

    name: str
    columns: tuple[str, ...]
    run: Callable[[LockTrial], tuple[Finding, ...]]
    races: bool = False  # chance decides, so it always runs three times
    alone: bool = False  # nothing else may run at the same time
