"""The parts of `bench`: which cases, on what stack, how often.

Another lab adds parts by ``bench_parts.py`` with `PARTS`, and for each the `COLUMNS` of its table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from app.contract import labs
from labs.bench.part import Part
from labs.bench.result import Case

# Bare Flask apps, by the name that stands where others have their guard: the route of labs.bench.bare.
BARE = {"flask + DECR": "/decr", "flask alone": "/nothing"}


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


def _click(guards: Sequence[str]) -> Iterator[Part]:
    """A closed loop of 32 connections at one instance, beside bare Flask apps under the same gunicorn."""
    for observed in (True, False):
        case = Case("click", "", 1000, 10_000, instances=1, connections=32, observed=observed)
        yield Part([replace(case, guard=name) for name in (*guards, *BARE)], rounds=5)


PARTS: dict[str, Callable[[Sequence[str]], Iterator[Part]]] = {
    "rush": _rush,
    "click": _click,
    "crowd": _crowd,
    "open": _open,
    "instances": _instances,
    "hold": _hold,
    **{name: part for lab in labs.modules("bench_parts") for name, part in lab.PARTS.items()},
}


def parts(names: Sequence[str], guards: Sequence[str], rounds: int | None) -> list[Part]:
    """The parts to run, without those that have no case for these guards; `rounds` for each if given."""
    chosen = [part for name in names for part in PARTS[name](guards) if part.cases]
    return chosen if rounds is None else [replace(part, rounds=rounds) for part in chosen]
