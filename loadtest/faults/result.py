"""What came of a scenario under one guard, next to what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.faults.scenario import Expected
from loadtest.results.audit import Audit
from loadtest.results.text import counted
from loadtest.results.verdict import Verdict

EXACT = "EXACT"
BREAKS_NOT = "it did not break: the scenario proves nothing"


@dataclass(frozen=True)
class TrialResult:
    """A row of the table.

    Attributes:
        observed: the verdict's sentence.
        sold, stock_left, stock: in the ledger, by the counter at the end, and at the beginning.
        stall_s: the longest time without a sale.
        problems: why it is not as expected; empty if it is.
    """

    scenario: str
    guard: str
    expected: Expected
    observed: str
    sold: int
    stock_left: int
    stock: int
    lost_updates: int
    stall_s: float
    problems: Sequence[str]

    @property
    def as_expected(self) -> bool:
        return not self.problems


def problems(expected: Expected, verdict: Verdict, found: Audit) -> list[str]:
    """What speaks against a run, by its verdict and by what the audit found."""
    if expected is Expected.EXACT:
        sentence = [] if verdict.exact else [verdict.sentence]
        return sentence + found.findings()
    broke = verdict.oversold or verdict.lost_updates or verdict.missing
    unanswered = [f"{counted(len(found.unanswered), 'buyer')} without an answer"] if found.unanswered else []
    return unanswered + ([BREAKS_NOT] if expected is Expected.BREAKS and not broke else [])
