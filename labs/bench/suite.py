"""The parts of `bench`: which cases, on what stack, how often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from labs.bench.result import Case

# Bare Flask apps, by the name that stands where others have their guard: the route of labs.bench.bare.
BARE = {"flask + DECR": "/decr", "flask alone": "/nothing"}


@dataclass(frozen=True)
class Part:
    """Cases that are compared with each other, so their rounds are interleaved on one stack.

    Attributes:
        rounds: of each case.
        shards: of the sale.
        warm_up: whether there is one more round before them, which is not counted.
    """

    cases: Sequence[Case]
    rounds: int
    shards: int = 4
    warm_up: bool = True

    @property
    def observed(self) -> bool:
        """Whether section log and board run."""
        return self.cases[0].observed

    @property
    def name(self) -> str:
        """That of `PARTS`."""
        return self.cases[0].part

    def schedule(self) -> Iterator[tuple[int, Case]]:
        """Every round of every case, round by round; number 0 warms up."""
        for number in range(0 if self.warm_up else 1, self.rounds + 1):
            for case in self.cases:
                yield number, case


def _rush(guards: Sequence[str]) -> Iterator[Part]:
    """500 buyers at once for 300 items."""
    yield Part([Case("rush", guard, 500, 300) for guard in guards], rounds=7)


def _crowd(guards: Sequence[str]) -> Iterator[Part]:
    """5,000 buyers at once for 300 items: nearly every buyer has to be told that all is sold."""
    yield Part([Case("crowd", guard, 5000, 300) for guard in guards], rounds=3)


def _open(guards: Sequence[str]) -> Iterator[Part]:
    """100 clicks per second for 20 seconds, whether or not the earlier ones are answered; stock for all."""
    yield Part([Case("open", guard, 2000, 2000, rate=100.0) for guard in guards], rounds=1, warm_up=False)


def _instances(guards: Sequence[str]) -> Iterator[Part]:
    """The rush with one instance, two and four."""
    yield Part([Case("instances", guard, 500, 300, instances=n) for n in (1, 2, 4) for guard in guards], rounds=3)


def _hold(guards: Sequence[str]) -> Iterator[Part]:
    """The rush with 0, 1 and 5 ms of think time inside the critical section."""
    yield Part([Case("hold", guard, 500, 300, hold_ms=ms) for guard in guards for ms in (0, 1, 5)], rounds=3)


def _shards(guards: Sequence[str]) -> Iterator[Part]:
    """3,000 buyers and stock for all on 64 shards, of one Redis and of clusters; then sales of several sizes."""
    wanted = [guard for guard in guards if guard in ("etcd-sharded", "redis-lua")]
    for nodes in (1, 2, 3):
        cases = [Case("shards", guard, 3000, 30_000, redis_nodes=nodes) for guard in wanted]
        yield Part(cases, rounds=2, shards=64)
    sizes = [Case("shards", guard, size, size, rate=600.0) for size in (300, 3000, 30_000) for guard in wanted[:1]]
    yield Part(sizes, rounds=1, warm_up=False)


def _click(guards: Sequence[str]) -> Iterator[Part]:
    """A closed loop of 32 connections at one instance, beside bare Flask apps under the same gunicorn."""
    for observed in (True, False):
        case = Case("click", "", 1000, 10_000, instances=1, connections=32, observed=observed)
        yield Part([replace(case, guard=name) for name in (*guards, *BARE)], rounds=5)


PARTS = {
    "rush": _rush,
    "click": _click,
    "crowd": _crowd,
    "open": _open,
    "instances": _instances,
    "hold": _hold,
    "shards": _shards,
}


def parts(names: Sequence[str], guards: Sequence[str], rounds: int | None) -> list[Part]:
    """The parts to run, without those that have no case for these guards; `rounds` for each if given."""
    chosen = [part for name in names for part in PARTS[name](guards) if part.cases]
    return chosen if rounds is None else [replace(part, rounds=rounds) for part in chosen]
