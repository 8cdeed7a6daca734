"""The rush in the terminal: one table that fills while it runs, and its result in words."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.live import Live

from loadtest.language import ENGLISH, joined_in, text_in
from loadtest.results.comparison import Comparison
from loadtest.results.record import Sample
from loadtest.terminal import Running, comparison_table, console

_STYLES = {"good": "bold green", "bad": "bold red", "plain": "bold"}


class Terminal:
    """Shows a rush; in a log, only its result.

    Attributes:
        language: of its texts.
        is_alone: nothing else is printed, so that a table on the screen need not be repeated at the end.
    """

    def __init__(self) -> None:
        self.language, self.is_alone = ENGLISH, False
        self._console = console()
        self._comparison: Comparison | None = None
        self._guards: Sequence[str] = ()
        self._guard, self._began = "", 0.0
        self._live: Live | None = None
        self._is_shown = False

    def waits(self, why: str) -> None:
        self._console.print(why)

    def begins(self, comparison: Comparison, guards: Sequence[str]) -> None:
        """Follow the runs of `comparison`, which are to be those of `guards`."""
        self._comparison, self._guards, self._is_shown = comparison, guards, False

    def round_begins(self, guard: str) -> None:
        self._guard, self._began = guard, time.monotonic()
        if self._console.is_terminal and self._live is None:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        self._refresh(Running(guard))

    def observed(self, sample: Sample) -> None:
        self._refresh(Running(self._guard, time.monotonic() - self._began, sample))

    def round_ends(self) -> None:
        self._refresh()
        if self._comparison and len(self._comparison.runs) == len(self._guards):
            self._is_shown = self._live is not None
            self._end_live(keep=True)

    def fail(self, message: str) -> None:
        self._end_live()
        self._console.print(f"Error: {message}", style="bold red", markup=False, soft_wrap=True)

    def stopped(self) -> None:
        self._end_live()
        self._console.print(text_in(self.language, "result.stopped"), style="bold red")

    def show(self, comparison: Comparison, *, complete: bool) -> None:
        """Show the comparison as a table, and its result if it is complete."""
        self._end_live()
        if not (self._is_shown and self.is_alone):
            self._console.print()
            width, plain = self._console.width, self._is_plain
            self._console.print(comparison_table(comparison, width=width, plain=plain, language=self.language))
        style = _STYLES[comparison.tone] if complete else "bold red"
        sentences = comparison.sentences(self.language) if complete else [text_in(self.language, "result.incomplete")]
        self._console.print(joined_in(self.language, sentences), style=style, markup=False, soft_wrap=True)

    @property
    def _is_plain(self) -> bool:
        return not self._console.is_terminal

    def _refresh(self, running: Running | None = None) -> None:
        if self._live and self._comparison:
            drawn = comparison_table(
                self._comparison,
                width=self._console.width,
                plain=False,
                guards=self._guards,
                running=running,
                language=self.language,
            )
            self._live.update(drawn, refresh=True)

    def _end_live(self, *, keep: bool = False) -> None:
        """End the table that fills: leave it on the screen, or take it away."""
        if self._live:
            self._live.transient = not keep
            self._live.stop()
            self._live = None
