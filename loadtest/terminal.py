"""The rush in the terminal: a live line while it runs, a line for each guard, and the table at the end."""

from __future__ import annotations

import os

from rich.console import Console
from rich.status import Status

from loadtest.comparison import Comparison, Run
from loadtest.rush import Audience
from loadtest.table import table

# Where there is no terminal that has a width.
_PLAIN_WIDTH = 120


def console() -> Console:
    """Standard output; plain text where that is not a terminal, without colour where NO_COLOR is set."""
    found = Console(highlight=False)
    if not found.is_terminal:
        found.width = int(os.environ.get("COLUMNS") or _PLAIN_WIDTH)
    return found


class Terminal(Audience):
    """Shows how a rush goes."""

    def __init__(self) -> None:
        self._console = console()
        self._status: Status | None = None
        self._label = ""
        self._buyers = 0

    def round_begins(self, guard: str, buyers: int) -> None:
        self._label, self._buyers = f"[bold]{guard}[/]", buyers
        # Not more often: drawing takes time from the buyers, who are in this process.
        self._status = self._console.status(f"{self._label}  {buyers} buyers come to the barrier", refresh_per_second=4)
        self._status.start()

    def answered(self, count: int) -> None:
        if self._status:
            self._status.update(f"{self._label}  {count} of {self._buyers} answered")

    def round_ends(self, run: Run) -> None:
        self.end_status()
        self._console.print(
            f"{run.guard:<14} {run.verdict}: {run.orders} sold in {run.wall_s:.2f} s, "
            f"all clicks within {run.send_spread_ms:.0f} ms"
        )

    def fail(self, message: str) -> None:
        """Say why there is no comparison."""
        self.end_status()
        self._console.print(f"Error: {message}", style="bold red", markup=False, soft_wrap=True)

    def show(self, comparison: Comparison, *, complete: bool) -> None:
        """The comparison as a table, and what it comes to if it is complete."""
        self._console.print()
        self._console.print(table(comparison, width=self._console.width, plain=not self._console.is_terminal))
        style = "bold green" if complete and comparison.kept else "bold red"
        self._console.print(comparison.sentence if complete else "Not complete.", style=style, markup=False)

    def end_status(self) -> None:
        """Take the live line away."""
        if self._status:
            self._status.stop()
            self._status = None
