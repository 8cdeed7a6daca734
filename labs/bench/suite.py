"""The parts of `bench`: which cases, on what stack, how often."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from labs.bench.result import Case

# Bare Flask apps, by the name that stands where others have their guard: the route of labs.bench.bare.
BARE_DECR = "flask + DECR"
BARE = {BARE_DECR: "/decr", "flask alone": "/nothing"}
PINNED = hasattr(os, "sched_setaffinity")  # as the local stack runs its instances if that is possible
BOTH_WAYS = (False, True) if PINNED else (False,)


@dataclass(frozen=True)
class Part:
    """Cases that are compared with each other, so their rounds are interleaved on one stack."""

    cases: Sequence[Case]
    rounds: int  # of each case

    @property
    def name(self) -> str:
        """The name of the part, as in `PARTS`."""
        return self.cases[0].part

    def schedule(self) -> Iterator[tuple[int, Case]]:
        """Every round of every case, round by round; number 0 warms up."""
        for number in range(self.rounds + 1):
            for case in self.cases:
                yield number, case


def _rush(guards: Sequence[str]) -> Part:
    """500 buyers at once for 300 items; each instance on one CPU, and on all."""
    return Part([Case("rush", guard, 500, 300, pinned=pinned) for pinned in BOTH_WAYS for guard in guards], rounds=7)


def _open(guards: Sequence[str]) -> Part:
    """100 clicks per second for 20 seconds, whether or not the earlier ones are answered; stock for all."""
    return Part([Case("open", guard, 2000, 2000, rate=100.0, pinned=PINNED) for guard in guards], rounds=1)


def _instances(guards: Sequence[str]) -> Part:
    """The rush with one instance, two and four."""
    cases = [Case("instances", guard, 500, 300, instances=n, pinned=PINNED) for n in (1, 2, 4) for guard in guards]
    return Part(cases, rounds=3)


def _hold(guards: Sequence[str]) -> Part:
    """The rush with 0, 1 and 5 ms of think time inside the critical section."""
    return Part(
        [Case("hold", guard, 500, 300, hold_ms=ms, pinned=PINNED) for guard in guards for ms in (0, 1, 5)], rounds=3
    )


def _click(guards: Sequence[str]) -> Part:
    """A closed loop of 32 connections at one instance with log and board, and at bare Flask apps; one CPU, and all."""
    case = Case("click", "", 1000, 10_000, instances=1, connections=32)
    settings = [replace(case, pinned=pinned) for pinned in BOTH_WAYS]
    return Part([replace(each, guard=name) for each in settings for name in (*guards, *BARE)], rounds=5)


PARTS: dict[str, Callable[[Sequence[str]], Part]] = {
    "rush": _rush,
    "click": _click,
    "open": _open,
    "instances": _instances,
    "hold": _hold,
}
