"""What the command `schedules` shows, in one language and 80 columns."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from labs.steps.schedules.results import Count, Exploration
from labs.steps.schedules.schedule import Ending, Schedule, hides_behind_lost_answer
from loadtest.terminal import DASHES

TEXTS: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("texts.json").read_text(encoding="utf-8"))
LINK = "http://127.0.0.1:8070/steps#guard={guard}&grain={grain}&schedule={path}"
PROGRESS_S = 10.0  # how often a log gets a line
COLUMNS = ("items", "fault", "states", "orders", "wrong", "promised", "complete", "seconds")
INDENT = "  "
_LEFT = ("fault", "promised")


def text_in(language: str, key: str, **values: object) -> str:
    """A text with its values, for one or for many."""
    one, *many = TEXTS[language][key].split("|")
    return (many[0] if many and values["n"] != 1 else one).format(**values)


class Screen:
    """The terminal, or a log."""

    def __init__(self, console: Console, language: str) -> None:
        self.console = console
        self._language, self.say = language, partial(text_in, language)

    def starting(self) -> AbstractContextManager[object]:
        return self.console.status(self.say("starting"))

    def broken(self, sentence: str) -> None:
        """A file that is no guard."""
        self.console.print(f"{self.say('no_verdict')}: {sentence}", style="bold yellow", markup=False)

    def begin(self, sizes: Sequence[int], buyers: int) -> None:
        items = self.say("and").join(self.say("items_of", n=each) for each in sizes)
        self.console.print(self.say("title", buyers=buyers, items=items), style="bold")

    @contextmanager
    def under_way(self) -> Iterator[Callable[[Iterable[Count]], None]]:
        """Inside, call what is yielded with what is under way: it is shown, in a log as lines from time to time."""
        if self.console.is_terminal:
            with self.console.status("") as status:
                yield lambda counts: status.update("\n".join(map(self._progress, counts)))
            return
        shown, told = time.monotonic(), set[str]()

        def tell(counts: Iterable[Count]) -> None:
            nonlocal shown, told
            if time.monotonic() > shown + PROGRESS_S:
                shown, before, told = time.monotonic(), told, {self._progress(count) for count in counts}
                for line in sorted(told - before):
                    self.console.print(line, style="dim", markup=False)

        yield tell

    def _progress(self, count: Count) -> str:
        return self.say("progress", **{**vars(count), "fault": self.say(f"fault.{count.fault}")})

    def result(self, found: Exploration, path: Path) -> None:
        """What came of a guard."""
        self.console.print(found.guard, style="bold", markup=False)
        self.console.print(self.table(found.counts))
        for count in found.counts:
            if count.no_verdict:
                name = f"{self.say('items', n=count.items)}, {self.say(f'fault.{count.fault}')}"
                said = f"{self.say('no_verdict')}, {name}: {count.no_verdict}"
                self.console.print(said, style="yellow", markup=False)
        self._orders(found)
        self.console.print(self.say("kept_in", path=path), style="dim", markup=False, soft_wrap=True)

    def _orders(self, found: Exploration) -> None:
        """Each wrong order once, with the faults under which it is one of the shortest."""
        seen: dict[tuple[int, str], tuple[Schedule, list[str]]] = {}
        for count in found.counts:
            for schedule in count.shortest:
                under = seen.setdefault((count.items, schedule.path), (schedule, []))[1]
                under.append(self.say(f"fault.{count.fault}"))
        for (items, path), (schedule, faults) in seen.items():
            ends = sentence_of(schedule.ending, items, self._language)
            said = self.say("ends_so", guard=found.guard, items=self.say("items", n=items), ends=ends)
            self.console.print(f"{said} ({', '.join(faults)})", style="bold", markup=False)
            for line in in_lines(schedule.words, self.console.width):
                self.console.print(line, markup=False)
            if hides_behind_lost_answer(schedule.moves):
                self.console.print(f"  {self.say('finally')}", style="yellow", markup=False)
            link = LINK.format(guard=found.guard, grain=found.grain, path=path)
            self.console.print(f"  {link}", style="dim", markup=False, soft_wrap=True)

    def table(self, counts: Sequence[Count]) -> Table:
        table = Table(box=DASHES if not self.console.is_terminal else None, pad_edge=False, padding=(0, 1, 0, 0))
        for column in COLUMNS:
            table.add_column(self.say(f"column.{column}"), justify="left" if column in _LEFT else "right")
        for count in counts:
            table.add_row(
                str(count.items),
                self.say(f"fault.{count.fault}"),
                f"{count.states:,}",
                short(count.orders),
                Text(short(count.wrong), "bold red" if count.wrong else ""),
                self._promised(count),
                self._complete(count),
                f"{count.seconds:.0f}",
            )
        return table

    def end(self, broken: Sequence[str], *, is_cut: bool, buyers: int, faults: int) -> None:
        said = self.say("broken", guards=", ".join(broken)) if broken else self.say("incomplete" if is_cut else "kept")
        self.console.print(said, style="bold red" if broken else "bold yellow" if is_cut else "bold green")
        together = self.say("one_each" if buyers < 3 else "two_together")
        self.console.print(self.say("bound", buyers=buyers, faults=faults, together=together), style="dim")

    def _complete(self, count: Count) -> str:
        if count.no_verdict:
            return self.say("no_verdict")
        return self.say("cut", n=count.cut) if count.cut else self.say("yes")

    def _promised(self, count: Count) -> Text:
        if not count.is_promised:
            return Text(self.say("not_promised"), "dim")
        if count.kept and (count.cut or count.no_verdict):
            return Text("")
        return Text(self.say("yes"), "green") if count.kept else Text(self.say("no"), "bold red")


def sentence_of(ending: Ending, items: int, language: str = "en") -> str:
    """Such as "1 item is sold twice", the worst first."""
    ways = [text_in(language, f"ends.{name}", n=getattr(ending, name), items=items) for name in ending.ways]
    return TEXTS[language]["comma"].join(ways)


def in_lines(moves: Sequence[str], width: int) -> list[str]:
    """Moves with a dot between them, in lines of at most so many cells that end between two of them."""
    lines = [INDENT]
    for place, move in enumerate(moves, 1):
        following = f"{move} ·" if place < len(moves) else move
        if lines[-1] != INDENT and cell_len(f"{lines[-1]} {following}") > width:
            lines.append(INDENT)
        lines[-1] += following if lines[-1] == INDENT else f" {following}"
    return lines


def short(number: int) -> str:
    """A number of orders, such as "450" or "3.7e+06"."""
    return f"{number:,}" if number < 1_000_000 else f"{number:.1e}"
