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
from app.guards import guards as all_guards
from labs.steps.schedules.explorer import Explorer, faults_of
from labs.steps.schedules.results import Count, Exploration, guards_in, row_of
from labs.steps.schedules.schedule import Fault
from labs.steps.schedules.world import BUYERS, World
from loadtest.cli.options import language
from loadtest.results.comparison import BROKEN_PROMISE, NO_RESULT
from loadtest.results.folders import report_under_way
from loadtest.shop_client.ledgers import UNREADABLE
from loadtest.shop_client.shops import SaleError
from loadtest.stack.process import ServerError, scratch_directory
from loadtest.terminal import DASHES, console
from lock import LockError

TEXTS: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parent / "schedules/texts.json").read_text(encoding="utf-8")
)
PAGE = "http://127.0.0.1:8070/schedules"
DEFAULT_GUARDS = ["none", "etcd"]
COLUMNS = ("guard", "fault", "schedules", "oversold", "lost_updates", "told_wrong", "promised", "seconds")


class NoSchedules(click.ClickException):
    """The exploration cannot go on; the message is one line that says what to do."""

    exit_code = NO_RESULT


@click.command()
@click.option(
    "--guard",
    "names",
    multiple=True,
    type=click.Choice([*all_guards(), "all"]),
    help=f"Repeatable; default: {', '.join(DEFAULT_GUARDS)}.",
)
@click.option("--items", default=1, show_default=True, type=click.IntRange(1, 3), help="For sale.")
@click.option("--buyers", default=2, show_default=True, type=click.IntRange(2, len(BUYERS)), help="One purchase each.")
@click.option("--without-faults", is_flag=True, help="Only orders in which nothing is paused, killed or lost.")
@language
def schedules(names: Sequence[str], items: int, buyers: int, without_faults: bool, language: str) -> None:
    """Try every order in which two purchases of one item can take their steps, through the real Redis and etcd.

    Then each of them once more with a fault at every point: the holder is paused beyond its lease, or killed, or the
    answer to its write is lost. Exits with 0 if every guard kept its promise, with 1 if one did not, with 2 if there is
    no verdict.
    """
    chosen = guards_in(names or DEFAULT_GUARDS, list(all_guards()))
    screen = _Screen(console(), language)
    with report_under_way() as report, scratch_directory() as directory:
        world = World(directory, items=items, buyers=buyers)
        try:
            with screen.console.status(screen.say("starting")):
                world.start()
            screen.begin(items, buyers)
            explored = [_explore(world, guard, screen, report, without_faults=without_faults) for guard in chosen]
        except (ServerError, SaleError) as error:
            raise NoSchedules(f"no verdict: {error.message}") from error
        except (LockError, *UNREADABLE) as error:
            raise NoSchedules(f"no verdict: etcd or Redis does not answer: {error}") from error
        finally:
            world.stop()
    broken = [each.guard for each in explored if not each.kept]
    screen.end(explored, broken, buyers)
    sys.exit(BROKEN_PROMISE if broken else 0)


def _explore(world: World, guard: str, screen: _Screen, report: Path, *, without_faults: bool) -> Exploration:
    """All schedules of one guard; its file is written."""
    promise = all_guards()[guard].promise.value
    found = Exploration(guard, promise, world.items, world.buyers, utc_now())
    faults = [Fault.NONE]
    with screen.live() as show:
        for fault in faults:
            explorer, count, began = Explorer(world, guard, fault), Count(guard, promise, fault), time.monotonic()
            found.counts.append(count)
            for schedule in explorer.schedules():
                count.add(schedule)
                count.seconds = round(time.monotonic() - began, 1)
                found.rows.append(row_of(schedule))
                show(found.counts)
            if fault is Fault.NONE and not without_faults:
                faults += faults_of(guard, has_waited=explorer.has_waited)
            show(found.counts)
    found.source = world.source(guard)
    found.write(report)
    screen.shortest(found, report)
    return found


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
    def live(self) -> Iterator[Callable[[Sequence[Count]], None]]:
        """Inside, the table fills on a terminal; elsewhere it is printed at the end."""
        if not self.console.is_terminal:
            shown: list[Sequence[Count]] = []
            yield shown.append
            self.console.print(self.table(shown[-1]))
            return
        with Live(console=self.console, refresh_per_second=4) as live:
            yield lambda counts: live.update(self.table(counts))

    def table(self, counts: Sequence[Count]) -> Table:
        plain = not self.console.is_terminal
        table = Table(box=DASHES if plain else None, pad_edge=False)
        for column in COLUMNS:
            is_number = column not in ("guard", "fault", "promised")
            table.add_column(self.say(column), justify="right" if is_number else "left")
        for count in counts:
            numbers = [count.schedules, count.oversold, count.lost_updates, count.told_wrong]
            table.add_row(
                count.guard,
                self.say(f"fault.{count.fault.value}"),
                *(Text(f"{number:,}", "bold red" if number and place else "") for place, number in enumerate(numbers)),
                self._promised(count),
                f"{count.seconds:.1f}",
            )
        return table

    def shortest(self, found: Exploration, report: Path) -> None:
        for count in found.counts:
            if count.shortest:
                fault = self.say(f"fault.{count.fault.value}")
                numbers = {"wrong": count.wrong, "schedules": count.schedules}
                self.console.print(self.say("found", guard=found.guard, fault=fault, **numbers), markup=False)
                self.console.print(f"  {count.shortest.line}", style="bold", markup=False)
                path = f"/steps#guard={found.guard}&schedule={count.shortest.path}"
                self.console.print(f"  {path}", style="dim", markup=False, soft_wrap=True)

    def end(self, explored: Sequence[Exploration], broken: Sequence[str], buyers: int) -> None:
        said = self.say("broken", guards=", ".join(broken)) if broken else self.say("kept")
        self.console.print(said, style="bold red" if broken else "bold green")
        self.console.print(self.say("bound", buyers=buyers), style="dim")

    def _promised(self, count: Count) -> Text:
        if not count.is_promised:
            return Text(self.say("not_promised"), "dim")
        return Text(self.say("yes"), "green") if count.kept else Text(self.say("no"), "bold red")
