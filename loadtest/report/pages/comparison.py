"""The page of a comparison: verdicts, sales over time, waiting times, critical sections."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loadtest.report.charts.sold import end_s, sold_over_time
from loadtest.report.charts.vega import Markup, draw
from loadtest.report.charts.waiting import distributions
from loadtest.report.pages.sections import Inside
from loadtest.report.render import render
from loadtest.report.sources import ComparisonSource
from loadtest.results.comparison import GUARDS, Comparison
from loadtest.results.record import Record


def page(rush: ComparisonSource) -> str:
    """The page of a comparison."""
    comparison = rush.about
    insides = [Inside.of(record) for record in rush.recorded.values()]
    return render(
        "comparison.html",
        {
            "source": rush,
            "comparison": comparison,
            "most": max([comparison.stock, *(run.orders for run in comparison.runs)], default=0) or 1,
            "sold": sold(rush),
            "waited": _waits(
                rush, lambda record: [ms for each in record.answers if (ms := each.waited_ms) is not None]
            ),
            "took": _waits(rush, took),
            "insides": insides,
            "magnified": next((inside for inside in insides if inside.race), None),
            "repeat": repeat(comparison),
        },
    )


def sold(rush: ComparisonSource) -> dict[str, Markup | None]:
    """Sales over time by guard, on the same axes."""
    until_s = max(map(end_s, rush.recorded.values()), default=0.0)
    most = max([rush.about.stock, *(len(record.ledger) for record in rush.recorded.values())])
    return {guard: draw(sold_over_time(record, until_s=until_s, most=most)) for guard, record in rush.recorded.items()}


def took(record: Record) -> list[float]:
    """Milliseconds from each click to its answer."""
    return [answer.answered_ms - answer.sent_ms for answer in record.answers]


def _waits(rush: ComparisonSource, measured: Callable[[Record], list[float]]) -> Markup | None:
    spec = distributions({guard: measured(record) for guard, record in rush.recorded.items()})
    return draw(spec) if spec else None


def repeat(comparison: Comparison) -> str:
    """The command that repeats it."""
    guards = [run.guard for run in comparison.runs]
    return demo(guards, comparison.buyers, comparison.stock, comparison.hold_ms, comparison.opens_in_s)


def demo(guards: Sequence[str], buyers: int | None, stock: int, hold_ms: int | None, opens_in_s: int = 0) -> str:
    """A rush as a command, without options that have their default value or are not known."""
    options = [("buyers", buyers, 500), ("stock", stock, 300), ("hold-ms", hold_ms, 0), ("opens-in", opens_in_s, 0)]
    words = [] if guards == list(GUARDS) else [f"--guard {guard}" for guard in guards if guard in GUARDS]
    words += [f"--{name} {value}" for name, value, default in options if value not in (None, default)]
    return f'make demo ARGS="{" ".join(words)}"' if words else "make demo"
