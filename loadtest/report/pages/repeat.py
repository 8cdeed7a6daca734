"""The command that repeats what a page shows; options with their default value are left out."""

from __future__ import annotations

from collections.abc import Sequence

from loadtest.results.comparison import DEMO_GUARDS, Comparison
from loadtest.results.record import NO_GUARD, Record


def repeat_comparison(comparison: Comparison) -> str:
    """The command of a comparison."""
    guards = [run.guard for run in comparison.runs]
    return _demo(guards, comparison.buyers, comparison.stock, comparison.hold_ms, comparison.opens_in_s)


def repeat_records(records: Sequence[Record]) -> str:
    """The command of at least one record."""
    first, guards = records[0], list(dict.fromkeys(record.guard for record in records))
    if first.kind != "fault":
        return _demo(guards, first.buyers, first.stock, first.hold_ms)
    scenarios = dict.fromkeys(record.name for record in records)
    return _make("faults", [*scenarios, *(f"--guard {guard}" for guard in guards)])


def _demo(guards: Sequence[str], buyers: int | None, stock: int, hold_ms: int | None, opens_in_s: int = 0) -> str:
    """A rush; what is None is not known."""
    options = [("buyers", buyers, 500), ("stock", stock, 300), ("hold-ms", hold_ms, 0), ("opens-in", opens_in_s, 0)]
    named = [guard for guard in guards if guard not in ("mixed", NO_GUARD)]  # as the board records them
    words = [] if tuple(named) == DEMO_GUARDS else [f"--guard {guard}" for guard in named]
    return _make("demo", words + [f"--{name} {value}" for name, value, usual in options if value not in (None, usual)])


def _make(target: str, words: Sequence[str]) -> str:
    return f'make {target} ARGS="{" ".join(words)}"' if words else f"make {target}"
