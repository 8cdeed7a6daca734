"""What the command `schedules` shows, in one language and 80 columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from labs.steps.schedules.endings import TEXTS, sentence_of
from labs.steps.schedules.results import Count, Exploration
from labs.steps.schedules.schedule import Fault, Schedule
from loadtest.terminal import DASHES

LINK = "http://127.0.0.1:8070/steps#guard={guard}&grain={grain}&schedule={path}"
PROGRESS_S = 10.0  # how often a log gets a line
COLUMNS = ("items", "fault", "states", "orders", "wrong", "promised", "complete", "seconds")
INDENT = "  "
_LEFT = ("fault", "promised")


class Screen:
    """The terminal, or a log."""

    def __init__(self, console: Console, language: str) -> None:
        self.console = console
        self._language, self._texts = language, TEXTS[language]
        self._shown = time.monotonic()
        self._states: dict[tuple[str, int, str], int] = {}  # as they were told last
        self._under_way: Callable[[], Iterable[Count]] = tuple

    def say(self, key: str, **values: object) -> str:
        one, *many = self._texts[key].split("|")
        return (many[0] if many and values["n"] != 1 else one).format(**values)

    def starting(self) -> AbstractContextManager[object]:
        return self.console.status(self.say("starting"))

    def broken(self, sentence: str) -> None:
        """A file that is no guard."""
        self.console.print(f"{self.say('no_verdict')}: {sentence}", style="bold yellow", markup=False)

    def begin(self, sizes: Sequence[int], buyers: int) -> None:
        items = self.say("and").join(self.say("items_of", n=each) for each in sizes)
        self.console.print(self.say("title", buyers=buyers, items=items), style="bold")

    @contextmanager
    def live(self, under_way: Callable[[], Sequence[Count]]) -> Iterator[Callable[[Exploration, Path], None]]:
        """Inside, what is under way is shown, in a log as a line from time to time; what is done is printed."""
        done: list[Count] = []

        def show(found: Exploration, path: Path) -> None:
            done.extend(found.counts)
            self.result(found, path)

        def left() -> Iterator[Count]:
            return (count for count in under_way() if count.states and count not in done)

        if self.console.is_terminal:
            shown = lambda: Text("\n".join(map(self._progress, left())))  # noqa: E731
            with Live(get_renderable=shown, console=self.console, refresh_per_second=2, transient=True):
                yield show
        else:
            self._under_way = left
            yield show

    def tick(self) -> None:
        """Say in a log what is under way, if nothing was said for a while."""
        if not self.console.is_terminal and time.monotonic() > self._shown + PROGRESS_S:
            self._shown = time.monotonic()
            for count in self._under_way():
                if self._states.get(key := (count.guard, count.items, count.fault)) == count.states:
                    continue  # it is done, or stands in the queue
                self._states[key] = count.states
                self.console.print(self._progress(count), style="dim", markup=False)

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
        if bounded := sum(count.bounded for count in found.counts):
            self.console.print(self.say("bounded_by", guard=found.guard, n=bounded), style="dim", markup=False)
        self._orders(found)
        self.console.print(self.say("kept_in", path=path), style="dim", markup=False, soft_wrap=True)

    def _orders(self, found: Exploration) -> None:
        """Each wrong order once, with the faults under which it is one of the shortest."""
        seen: dict[tuple[int, str], tuple[Schedule, list[str]]] = {}
        for count in found.counts:
            for schedule in count.shortest:
                under = seen.setdefault((count.items, schedule.path), (schedule, []))[1]
                under.append(self.say(f"fault.{count.fault}"))
        if seen and (alone := found.alone):
            self.console.print(self.say("alone", guard=found.guard, n=len(alone)), markup=False)
            self._moves(alone)
        for (items, path), (schedule, faults) in seen.items():
            ends = sentence_of(schedule.ending, items, self._language)
            said = self.say("ends_so", guard=found.guard, items=self.say("items", n=items), ends=ends)
            self.console.print(f"{said} ({', '.join(faults)})", style="bold", markup=False)
            self._moves(schedule.words)
            if hides_behind_lost_answer(schedule):
                self.console.print(f"  {self.say('finally')}", style="yellow", markup=False)
            link = LINK.format(guard=found.guard, grain=found.grain, path=path)
            self.console.print(f"  {link}", style="dim", markup=False, soft_wrap=True)

    def _moves(self, moves: Sequence[str]) -> None:
        for line in in_lines(moves, self.console.width):
            self.console.print(line, markup=False)

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
        return self.say("cut", n=count.cut) if count.cut else self.say("bounded" if count.bounded else "yes")

    def _promised(self, count: Count) -> Text:
        if not count.is_promised:
            return Text(self.say("not_promised"), "dim")
        if count.kept and (count.cut or count.no_verdict):
            return Text("")
        return Text(self.say("yes"), "green") if count.kept else Text(self.say("no"), "bold red")


def in_lines(moves: Sequence[str], width: int) -> list[str]:
    """Moves with a dot between them, in lines of at most so many cells that end between two of them."""
    lines = [INDENT]
    for place, move in enumerate(moves, 1):
        following = f"{move} ·" if place < len(moves) else move
        if lines[-1] != INDENT and cell_len(f"{lines[-1]} {following}") > width:
            lines.append(INDENT)
        lines[-1] += following if lines[-1] == INDENT else f" {following}"
    return lines


def hides_behind_lost_answer(schedule: Schedule) -> bool:
    """Whether a purchase that had left its section was told of an error, as the answer to its release was lost."""
    left: set[str] = set()
    for done in schedule.moves:
        if done.move.fault is Fault.LOST and done.move.buyer in left and done.answer not in ("sold", ""):
            return True
        if done.point == "left":
            left.add(done.move.buyer)
    return False


def short(number: int) -> str:
    """A number of orders, such as "450" or "3.7e+06"."""
    return f"{number:,}" if number < 1_000_000 else f"{number:.1e}"
