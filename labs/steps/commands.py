"""`schedules`: every order of a few purchases under a guard, tried by a machine."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from app.contract.clock import utc_now
from app.contract.section_log import GuardSource
from app.guards import Guard, guards
from labs.steps.mistakes import mistakes
from labs.steps.mistakes_command import mistakes_command
from labs.steps.schedules.explorer import Budget, Explorer, budgets_of
from labs.steps.schedules.recording import recorded
from labs.steps.schedules.results import Count, Exploration, guards_in, packed
from labs.steps.schedules.schedule import Fault
from labs.steps.schedules.world import BUYERS, Unsettled, World
from labs.steps.schedules.worlds import Worlds
from labs.steps.shop import COMMANDS
from loadtest.cli.options import language
from loadtest.results.comparison import BROKEN_PROMISE, NO_RESULT
from loadtest.results.folders import report_under_way
from loadtest.stack.process import ServerError, scratch_directory
from loadtest.terminal import DASHES, console

__all__ = ["mistakes_command", "schedules"]

TEXTS: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parent / "schedules/texts.json").read_text(encoding="utf-8")
)
DEFAULT_GUARDS = ["none", "etcd"]
COLUMNS = ("guard", "fault", "states", "orders", "wrong", "ends", "promised", "complete", "seconds")
SHOW_S = 0.5  # how often the table is shown anew
CUT = 2  # exit code: nothing wrong was found, and something was not tried


class NoSchedules(click.ClickException):
    """The exploration cannot go on; the message is one line that says what to do."""

    exit_code = NO_RESULT


def _known() -> dict[str, type[Guard]]:
    return {**guards(), **mistakes()}


@click.command()
@click.option(
    "--guard",
    "names",
    multiple=True,
    type=click.Choice([*_known(), "all"]),
    metavar="NAME",
    help=f"Repeatable, all: those of the shop; default: {', '.join(DEFAULT_GUARDS)}.",
)
@click.option("--items", default=1, show_default=True, type=click.IntRange(1, 3), help="For sale.")
@click.option("--buyers", default=2, show_default=True, type=click.IntRange(2, len(BUYERS)), help="One purchase each.")
@click.option("--faults", default=1, show_default=True, type=click.IntRange(0, 2), help="In one order, at most.")
@click.option("--record", type=click.Path(file_okay=False, path_type=Path), help="Keep the graphs to be played here.")
@language
def schedules(names: Sequence[str], items: int, buyers: int, faults: int, record: Path | None, language: str) -> None:
    """Try every order in which two purchases of one item can send their commands to the real Redis and etcd.

    Then every order with a fault: a purchase is paused beyond its lease before a command, or killed before it or behind
    it, or the answer to a command that writes is lost. Exits with 0 if every guard kept its promise, with 1 if one did
    not, with 2 if there is no verdict or something was not tried.
    """
    chosen = [*guards_in(names or DEFAULT_GUARDS, list(guards())), *(name for name in mistakes() if name in names)]
    screen = _Screen(console(), language)
    explored = {name: _Guard(name, items, buyers, faults) for name in chosen}
    with report_under_way() as report, scratch_directory() as directory:
        most = len(chosen) if record else sum(len(each.left) for each in explored.values())
        worlds = Worlds(directory, most=most, items=items, buyers=buyers)
        try:
            worlds.launch()
            with screen.console.status(screen.say("starting")):
                worlds.wait_ready()
            if record is not None:
                recorded(worlds, chosen, record, screen.console)
                return
            screen.begin(items, buyers)
            _explore(worlds, explored, screen, report)
        except ServerError as error:
            raise NoSchedules(f"no verdict: {error.message}") from error
        finally:
            worlds.stop()
    broken = [each.name for each in explored.values() if not each.found.kept]
    is_cut = any(each.found.is_cut for each in explored.values())
    screen.end(broken, is_cut=is_cut, buyers=buyers, faults=faults)
    sys.exit(BROKEN_PROMISE if broken else CUT if is_cut else 0)


class _Task(NamedTuple):
    """An exploration, for a world: the guard's name, and what is known of it."""

    guard: str
    budget: Budget
    known: Sequence[Explorer]


@dataclass(frozen=True)
class _Found:
    """What an exploration has found so far; at its end, all of it."""

    count: Count
    graph: dict[str, Any] | None = None
    explorer: Explorer | None = None  # none without a verdict
    source: GuardSource | None = None


class _Guard:
    """A guard under exploration: its budgets of more faults after those of fewer."""

    def __init__(self, name: str, items: int, buyers: int, faults: int) -> None:
        kind = _known()[name]
        self.name = name
        self.found = Exploration(name, kind.promise.value, COMMANDS, items, buyers, utc_now())
        self.left = budgets_of(kind, faults)
        self._under_way = 0
        self._known: list[Explorer] = []

    def begin(self) -> list[_Task]:
        """What can be explored now."""
        if self._under_way or not self.left:
            return []
        fewest = min(budget.faults for budget in self.left)
        budgets = [budget for budget in self.left if budget.faults == fewest]
        self.left = [budget for budget in self.left if budget.faults > fewest]
        self._under_way = len(budgets)
        self.found.counts += [Count(self.name, self.found.promise, each.name) for each in budgets]
        self.found.graphs += [{} for _ in budgets]
        known = sorted(self._known, key=lambda each: each.budget.name)
        return [_Task(self.name, budget, known) for budget in budgets]

    def take(self, budget: Budget, found: _Found) -> bool:
        """What is found; whether that is all of this guard."""
        place = next(place for place, count in enumerate(self.found.counts) if count.fault == budget.name)
        self.found.counts[place] = count = found.count
        if found.graph is None:
            return False
        self._under_way -= 1
        self.found.graphs[place], self.found.source = found.graph, found.source or self.found.source
        self._known += filter(None, [found.explorer])
        if count.cut and not count.no_verdict and not budget.kinds:
            self.left = []  # with a fault there are more
        return not (self._under_way or self.left)


def _explored(world: World, task: _Task) -> Iterator[_Found]:
    """What is found in this world."""
    kind = _known()[task.guard]
    explorer, began = Explorer(world, kind, task.budget, known=task.known), time.monotonic()
    count = Count(kind.name, kind.promise.value, task.budget.name, pauses=Fault.PAUSE in task.budget.kinds)
    shown = began
    try:
        for graph in explorer.explore():
            if time.monotonic() - shown > SHOW_S:
                count.note(graph, explorer.schedules, time.monotonic() - began)
                yield _Found(count)
                shown = time.monotonic()
    except Unsettled as error:
        count.no_verdict = error.message
    count.note(explorer.graph, explorer.schedules, time.monotonic() - began)
    whole = packed(explorer.graph, explorer.schedules, fault=task.budget.name)
    yield _Found(count, whole, None if count.no_verdict else explorer, world.source(kind.name))


def _urgency(task: _Task) -> tuple[int, int]:
    """What others wait for comes first, then what takes longest."""
    return task.budget.faults, -sum(len(each.graph.states) for each in task.known)


def _explore(worlds: Worlds, guards: Mapping[str, _Guard], screen: _Screen, report: Path) -> None:
    """All orders of each guard, without a fault at first; its file is written, and its table shown."""
    tasks = [task for guard in guards.values() for task in guard.begin()]
    with screen.live(lambda: [count for guard in guards.values() for count in guard.found.counts]) as show:
        for task, found in worlds.each(_explored, tasks):
            guard = guards[task.guard]
            if guard.take(task.budget, found):
                guard.found.write(report)
                show(guard.found)
            tasks += guard.begin()
            tasks.sort(key=_urgency)


class _Screen:
    """What is shown, in one language."""

    def __init__(self, console: Console, language: str) -> None:
        self.console = console
        self._texts = TEXTS[language]

    def say(self, key: str, **values: object) -> str:
        one, *many = self._texts[key].split("|")
        return (many[0] if many and values["n"] != 1 else one).format(**values)

    def begin(self, items: int, buyers: int) -> None:
        self.console.print(self.say("title", buyers=buyers, items=self.say("items", n=items)), style="bold")

    @contextmanager
    def live(self, under_way: Callable[[], Sequence[Count]]) -> Iterator[Callable[[Exploration], None]]:
        """Inside, what is under way is shown on a terminal; what is done is printed."""
        done: list[Count] = []

        def show(found: Exploration) -> None:
            done.extend(found.counts)
            self.console.print(self.table(found.counts))
            self.shortest(found)

        if not self.console.is_terminal:
            yield show
            return

        def left() -> Table:
            return self.table([count for count in under_way() if count.states and count not in done])

        with Live(get_renderable=left, console=self.console, refresh_per_second=2, transient=True):
            yield show

    def table(self, counts: Sequence[Count]) -> Table:
        plain = not self.console.is_terminal
        table = Table(box=DASHES if plain else None, pad_edge=False)
        for column in COLUMNS:
            is_number = column not in ("guard", "fault", "promised")
            table.add_column(self.say(column), justify="right" if is_number else "left")
        for count in counts:
            table.add_row(
                count.guard,
                self.say(f"fault.{count.fault}"),
                f"{count.states:,}",
                short(count.orders),
                Text(short(count.wrong), "bold red" if count.wrong else ""),
                f"{count.ends:,}",
                self._promised(count),
                self._complete(count),
                f"{count.seconds:.1f}",
            )
        return table

    def shortest(self, found: Exploration) -> None:
        for count in found.counts:
            fault = self.say(f"fault.{count.fault}")
            if count.no_verdict:
                self.console.print(
                    f"{self.say('no_verdict')}, {fault}: {count.no_verdict}", style="yellow", markup=False
                )
            if count.bounded:
                bound = self.say("bounded_by", guard=found.guard, fault=fault, n=count.bounded)
                self.console.print(bound, style="dim", markup=False)
            if count.shortest:
                numbers = {"wrong": short(count.wrong), "orders": short(count.orders)}
                self.console.print(self.say("found", guard=found.guard, fault=fault, **numbers), markup=False)
                self.console.print(f"  {count.shortest.line}", style="bold", markup=False)
                path = f"/steps#guard={found.guard}&grain={found.grain}&schedule={count.shortest.path}"
                self.console.print(f"  {path}", style="dim", markup=False, soft_wrap=True)

    def end(self, broken: Sequence[str], *, is_cut: bool, buyers: int, faults: int) -> None:
        said = self.say("broken", guards=", ".join(broken)) if broken else self.say("incomplete" if is_cut else "kept")
        self.console.print(said, style="bold red" if broken else "bold yellow" if is_cut else "bold green")
        self.console.print(self.say("bound", buyers=buyers, faults=faults), style="dim")

    def _complete(self, count: Count) -> str:
        if count.no_verdict:
            return self.say("no_verdict")
        return self.say("cut", n=count.cut) if count.cut else self.say("bounded" if count.bounded else "yes")

    def _promised(self, count: Count) -> Text:
        if not count.is_promised:
            return Text(self.say("not_promised"), "dim")
        return Text(self.say("yes"), "green") if count.kept else Text(self.say("no"), "bold red")


def short(number: int) -> str:
    """A number of orders, such as "450" or "3.7e+06"."""
    return f"{number:,}" if number < 10_000_000 else f"{number:.1e}"
