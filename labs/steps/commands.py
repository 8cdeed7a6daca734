"""`schedules`: every order of a few purchases under a guard, tried by a machine."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from app.contract.clock import utc_now
from app.guards import Guard, guards
from labs.steps.mistakes import mistakes
from labs.steps.mistakes_command import mistakes_command
from labs.steps.schedules.explorer import Budget, Explorer, budgets_of
from labs.steps.schedules.recording import recorded
from labs.steps.schedules.results import Count, Exploration, guards_in, packed
from labs.steps.schedules.schedule import Fault
from labs.steps.schedules.world import BUYERS, Unsettled, World, settings_for
from labs.steps.schedules.worlds import Worlds
from labs.steps.shop import COMMANDS
from loadtest.cli.options import language
from loadtest.results.comparison import BROKEN_PROMISE, NO_RESULT
from loadtest.results.folders import report_under_way
from loadtest.shop_client.ledgers import UNREADABLE
from loadtest.shop_client.shops import SaleError
from loadtest.stack.process import ServerError, scratch_directory
from loadtest.terminal import DASHES, console
from lock import LockError

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
    with report_under_way() as report, scratch_directory() as directory:
        worlds = Worlds(directory, items=items, buyers=buyers)
        try:
            with screen.console.status(screen.say("starting")):
                worlds.start()
            if record is not None:
                recorded(worlds, chosen, record, screen.console)
                return
            screen.begin(items, buyers)
            explored = [_Guard(name, items, buyers, faults) for name in chosen]
            _explore(worlds, explored, screen, report)
        except (ServerError, SaleError) as error:
            raise NoSchedules(f"no verdict: {error.message}") from error
        except (LockError, *UNREADABLE) as error:
            raise NoSchedules(f"no verdict: etcd or Redis does not answer: {error}") from error
        finally:
            worlds.stop()
    broken = [each.name for each in explored if not each.found.kept]
    is_cut = any(each.found.is_cut for each in explored)
    screen.end(broken, is_cut=is_cut, buyers=buyers, faults=faults)
    sys.exit(BROKEN_PROMISE if broken else CUT if is_cut else 0)


class _Guard:
    """A guard under exploration, budget by budget."""

    def __init__(self, name: str, items: int, buyers: int, faults: int) -> None:
        self.name, self._kind = name, _known()[name]
        self.found = Exploration(name, self._kind.promise.value, COMMANDS, items, buyers, utc_now())
        self.left = budgets_of(self._kind, faults)
        self._explorers: list[Explorer] = []

    def begin(self, faults: int) -> list[tuple[_Guard, Count, Budget]]:
        """What can be explored now: its budgets of so many faults."""
        budgets = [budget for budget in self.left if budget.faults == faults]
        self.left = [budget for budget in self.left if budget.faults > faults]
        counts = [Count(self.name, self.found.promise, each.name, pauses=Fault.PAUSE in each.kinds) for each in budgets]
        self.found.counts += counts
        self.found.graphs += [{} for _ in counts]
        return [(self, count, budget) for count, budget in zip(counts, budgets, strict=True)]

    def explore(self, world: World, count: Count, budget: Budget) -> None:
        explorer, began = Explorer(world, self._kind, budget, known=self._explorers), time.monotonic()
        shown = began
        try:
            for graph in explorer.explore():
                if time.monotonic() - shown > SHOW_S:
                    count.note(graph, explorer.schedules, time.monotonic() - began)
                    shown = time.monotonic()
        except Unsettled as error:
            count.no_verdict = error.message
        else:
            self._explorers = [*self._explorers, explorer]
        count.note(explorer.graph, explorer.schedules, time.monotonic() - began)
        self.found.graphs[self.found.counts.index(count)] = packed(
            explorer.graph, explorer.schedules, fault=budget.name
        )
        self.found.source = world.source(self.name) or self.found.source
        if count.cut and not count.no_verdict and not budget.kinds:
            self.left = []  # with a fault there are more


def _explore(worlds: Worlds, guards: Sequence[_Guard], screen: _Screen, report: Path) -> None:
    """All orders of each guard, without a fault at first; its file is written, and its table shown."""

    def explore(world: World, task: tuple[_Guard, Count, Budget]) -> _Guard:
        guard, count, budget = task
        guard.explore(world, count, budget)
        return guard

    with screen.live(lambda: [count for guard in guards for count in guard.found.counts]) as show:
        for faults in range(3):
            tasks = [task for guard in guards for task in guard.begin(faults)]
            for place, guard in enumerate(worlds.each(explore, tasks)):
                if not guard.left and guard not in [after for after, *_ in tasks[place + 1 :]]:
                    guard.found.write(report)
                    show(guard.found)


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
            if settings := settings_for(_known()[found.guard]):
                told = " ".join(f"{name}={value}" for name, value in settings.items())
                sold = getattr(_known()[found.guard], "sold_before", 0)
                said = self.say("settings", guard=found.guard, settings=told, n=sold)
                self.console.print(said, style="dim", markup=False)
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
