"""A part of `bench`: its cases, and on what stack they are measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from labs.bench.result import Case


@dataclass(frozen=True)
class Part:
    """Cases that are compared with each other, so their rounds are interleaved on one stack.

    Attributes:
        rounds: of each case.
        warm_up: whether there is one more round before them, which is not counted.
    """

    cases: Sequence[Case]
    rounds: int
    warm_up: bool = True

    @property
    def observed(self) -> bool:
        """Whether section log and board run."""
        return self.cases[0].observed

    @property
    def name(self) -> str:
        """That of `labs.bench.suite.PARTS`."""
        return self.cases[0].part

    def schedule(self) -> Iterator[tuple[int, Case]]:
        """Every round of every case, round by round; number 0 warms up."""
        for number in range(0 if self.warm_up else 1, self.rounds + 1):
            for case in self.cases:
                yield number, case
