"""The rush in the terminal: a live line, a line for each guard, and the table at the end."""

from __future__ import annotations

from rich.status import Status
from rich.text import Text

from loadtest.results.comparison import Comparison, Run
from loadtest.results.record import Sample
from loadtest.results.text import pluralize
from loadtest.terminal import console, table

_BAR = 18  # characters
_STYLES = {"good": "bold green", "bad": "bold red", "plain": "bold"}


class Terminal:
    """Shows the progress of a rush."""

    def __init__(self) -> None:
        self._console = console()
        self._status: Status | None = None
        self._guard = ""
        self._stock = 0

    def waits(self, why: str) -> None:
        self._console.print(why)

    def round_begins(self, guard: str, *, buyers: int, stock: int) -> None:
        self._guard, self._stock = guard, stock
        line = Text.assemble((f"{guard:<13}", "bold"), f" {pluralize(buyers, 'buyer')} on the way to the barrier")
        self._status = self._console.status(line, refresh_per_second=4)  # drawing takes time from the buyers
        self._status.start()

    def observed(self, sample: Sample, *, answered: int) -> None:
        if self._status:
            self._status.update(live_line(self._guard, self._stock, sample, answered))

    def round_ends(self, run: Run) -> None:
        self.end_status()
        style = "green" if run.verdict.startswith("EXACT") else "bold red"
        told = f": {run.orders} sold in {run.wall_s:.2f} s, all clicks within {run.send_spread_ms:.0f} ms"
        self._console.print(Text.assemble((f"{run.guard:<14} ", "bold"), (run.verdict, style), told), soft_wrap=True)

    def fail(self, message: str) -> None:
        """Show why there is no comparison."""
        self.end_status()
        self._console.print(f"Error: {message}", style="bold red", markup=False, soft_wrap=True)

    def stopped(self) -> None:
        """Show that the rush was stopped without a result."""
        self.end_status()
        self._console.print("Stopped before the first verdict.", style="bold red")

    def show(self, comparison: Comparison, *, complete: bool) -> None:
        """Show the comparison as a table, and its result if it is complete."""
        self.end_status()
        self._console.print()
        self._console.print(table(comparison, width=self._console.width, plain=not self._console.is_terminal))
        style = _STYLES[comparison.tone] if complete else "bold red"
        sentence = comparison.sentence if complete else "Not complete."
        self._console.print(sentence, style=style, markup=False, soft_wrap=True)

    def end_status(self) -> None:
        """Remove the live line."""
        if self._status:
            self._status.stop()
            self._status = None


def live_line(guard: str, stock: int, sample: Sample, answered: int) -> Text:
    """The sale at this moment in less than 80 columns: a bar and figures."""
    line = Text.assemble((f"{guard:<13} ", "bold"))
    if sample.stock is None or sample.orders is None:
        return line.append("Redis is unavailable", "bold red")
    line.append_text(_bar(sample.orders, stock))
    line.append(f" {sample.orders:>3} sold  {sample.stock:>3} left")
    if sample.waiters:
        line.append(f"  {sample.waiters:>3} wait")
    return line.append(f"  {answered:>3} answered")


def _bar(sold: int, stock: int) -> Text:
    """Items sold, and in another colour and shape the items sold beyond the stock."""
    scale = _BAR / max(sold, stock, 1)
    within, beyond = round(min(sold, stock) * scale), round(max(0, sold - stock) * scale)
    rest = "." * (_BAR - within - beyond)
    return Text.assemble(("=" * within, "blue"), ("#" * beyond, "bold red"), (rest, "dim"))
