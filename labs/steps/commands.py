"""`schedules`: every order of a few purchases under a guard, tried by a machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import click

from app.contract.clock import utc_now
from app.contract.section_log import GuardSource
from app.guards import Guard, broken, guards
from app.telemetry.guard_lines import GuardLines
from labs.steps.guard_files import BrokenGuard, GuardFile
from labs.steps.mistakes import mistakes
from labs.steps.mistakes_command import mistakes_command
from labs.steps.schedules.explorer import MOST_S, NO_FAULT, Budget, Explorer, budgets_of
from labs.steps.schedules.quiescence import NoVerdict
from labs.steps.schedules.recording import recorded
from labs.steps.schedules.results import Count, Exploration, guards_in, packed
from labs.steps.schedules.schedule import Fault
from labs.steps.schedules.screen import Screen
from labs.steps.schedules.world import BUYERS, World
from labs.steps.schedules.worlds import Worlds
from labs.steps.stepped import COMMANDS
from loadtest.cli.options import language
from loadtest.results.comparison import BROKEN_PROMISE, NO_RESULT
from loadtest.results.folders import report_under_way
from loadtest.stack.process import ServerError, scratch_directory
from loadtest.terminal import console

__all__ = ["mistakes_command", "schedules"]

DEFAULT_GUARDS = ["none", "etcd"]
SIZES = (1, 2)  # items: what one hides, two may show
SHOW_S = 0.5  # how often the table is shown anew
CUT = 2  # exit code: nothing wrong was found, and something was not tried


class NoSchedules(click.ClickException):
    """The exploration cannot go on; the message is one line that says what to do."""

    exit_code = NO_RESULT


@click.command()
@click.option(
    "--guard", "names", multiple=True, metavar="NAME",
    help=f"Repeatable; a guard, a mistake, a file, or all: those of the shop. Default: {', '.join(DEFAULT_GUARDS)}.",
)  # fmt: skip
@click.option("--items", multiple=True, type=click.IntRange(1, 3), help="For sale; repeatable, default: 1 and 2.")
@click.option("--buyers", default=2, show_default=True, type=click.IntRange(2, len(BUYERS)), help="One purchase each.")
@click.option("--faults", default=1, show_default=True, type=click.IntRange(0, 1), help="In one order, at most.")
@click.option("--limit", default=MOST_S, show_default=True, help="Seconds for each size and kind of fault.")
@click.option("--first", is_flag=True, help="Stop at the first wrong order.")
@click.option("--record", type=click.Path(file_okay=False, path_type=Path), help="Keep the graphs to be played here.")
@language
def schedules(
    names: Sequence[str], items: Sequence[int], buyers: int, faults: int, limit: float, first: bool,
    record: Path | None, language: str,
) -> None:  # fmt: skip
    """Try every order in which two purchases of one item, and of two, can send their commands to real Redis and etcd.

    Then every order with a fault: a purchase is paused beyond its lease before a command, or killed before it or behind
    it, or the answer to a command that writes is lost. Exits with 0 if every guard kept its promise, with 1 if one did
    not, with 2 if there is no verdict or something was not tried.
    """
    found, broken_files = _chosen(names or DEFAULT_GUARDS)
    screen, sizes = Screen(console(), language), sorted(set(items)) or SIZES
    explored = {name: _Guard(kind, sizes, buyers, faults) for name, kind in found.items()}
    for sentence in broken_files:
        screen.broken(sentence)
    if not explored:
        sys.exit(CUT)
    with report_under_way() as report, scratch_directory() as directory:
        worlds = Worlds(directory, most=sum(len(each.left) for each in explored.values()), buyers=buyers)
        try:
            worlds.launch()
            with screen.starting():
                worlds.wait_ready()
            if record is not None:
                recorded(worlds, list(explored), record, screen.console)
                return
            screen.begin(sizes, buyers)
            _explore(worlds, explored, screen, report, _Limits(limit, first))
        except ServerError as error:
            raise NoSchedules(f"no verdict: {error.message}") from error
        finally:
            worlds.stop()
    unkept = [each.name for each in explored.values() if not each.found.kept]
    is_cut = any(each.found.is_cut for each in explored.values()) or bool(broken_files)
    screen.end(unkept, is_cut=is_cut, buyers=buyers, faults=faults)
    sys.exit(BROKEN_PROMISE if unkept else CUT if is_cut else 0)


def _chosen(names: Sequence[str]) -> tuple[dict[str, type[Guard]], list[str]]:
    """The guards that are meant, by name, and what is wrong with the files that are none."""
    known = {**guards(), **mistakes()}
    found = {name: known[name] for name in [*guards_in(names, list(guards())), *(n for n in mistakes() if n in names)]}
    wrong = []
    for name in names:
        if name.endswith(".py"):
            try:
                kind = GuardFile(str(Path(name).resolve())).load()
                found[kind.name] = kind
            except BrokenGuard as error:
                wrong.append(error.message)
        elif name in broken():
            wrong.append(broken()[name])
        elif name not in known and name != "all":
            raise click.BadParameter(f"there is no guard {name!r}: choose from {', '.join([*known, 'all'])}.")
    return found, wrong


class _Limits(NamedTuple):
    """Of an exploration."""

    seconds: float
    is_first_enough: bool


class _Task(NamedTuple):
    """An exploration, for a world: the guard's file, and what is known of it."""

    guard: str
    file: GuardFile
    budget: Budget
    items: int
    known: Sequence[Explorer]
    limits: _Limits


@dataclass(frozen=True)
class _Found:
    """What an exploration has found so far; at its end, all of it."""

    count: Count
    graph: dict[str, Any] | None = None
    explorer: Explorer | None = None  # none without a verdict
    source: GuardSource | None = None


class _Guard:
    """A guard under exploration: with a fault behind without one."""

    def __init__(self, kind: type[Guard], sizes: Sequence[int], buyers: int, faults: int) -> None:
        self.name, self._file = kind.name, GuardFile.of(kind)
        self.found = Exploration(kind.name, kind.promise.value, COMMANDS, sizes[0], buyers, utc_now())
        budgets = budgets_of(kind) if faults else [NO_FAULT]
        self.left = [(budget, items) for budget in budgets for items in sizes]
        self._under_way = 0
        self._known: list[Explorer] = []

    def begin(self, limits: _Limits) -> list[_Task]:
        """What can be explored now."""
        if self._under_way or not self.left:
            return []
        now = [each for each in self.left if not each[0].kinds] or self.left
        self.left = [each for each in self.left if each not in now]
        self._under_way = len(now)
        promise = self.found.promise
        self.found.counts += [Count(self.name, promise, budget.name, items) for budget, items in now]
        self.found.graphs += [{} for _ in now]
        known = sorted(self._known, key=lambda each: each.budget.name)
        return [_Task(self.name, self._file, budget, items, known, limits) for budget, items in now]

    def take(self, task: _Task, found: _Found) -> bool:
        """What is found; whether that is all of this guard."""
        place = next(
            place
            for place, count in enumerate(self.found.counts)
            if (count.fault, count.items) == (task.budget.name, task.items)
        )
        self.found.counts[place] = count = found.count
        if found.graph is None:
            return False
        self._under_way -= 1
        self.found.graphs[place], self.found.source = found.graph, found.source or self.found.source
        self._known += filter(None, [found.explorer])
        if (count.no_verdict or count.cut) and not task.budget.kinds:
            self.left = [each for each in self.left if each[1] != task.items]  # with a fault there are more
        return not (self._under_way or self.left)


def _explored(world: World, task: _Task) -> Iterator[_Found]:
    """What is found in this world."""
    began = shown = time.monotonic()
    world.items, kind = task.items, task.file.load()
    seconds, first = task.limits
    explorer = Explorer(world, kind, task.budget, known=task.known, seconds=seconds, is_first_enough=first)
    count = Count(kind.name, kind.promise.value, task.budget.name, task.items, Fault.PAUSE in task.budget.kinds)
    try:
        for graph in explorer.explore():
            if time.monotonic() - shown > SHOW_S:
                count.note(graph, explorer.schedules, time.monotonic() - began)
                yield _Found(replace(count))
                shown = time.monotonic()
    except (NoVerdict, BrokenGuard) as error:
        count.no_verdict = error.message
    count.note(explorer.graph, explorer.schedules, time.monotonic() - began, explorer.shortest)
    whole = packed(explorer.graph, explorer.schedules, fault=task.budget.name)
    yield _Found(count, whole, None if count.no_verdict else explorer, GuardLines(kind.buy).source)


def _urgency(task: _Task) -> tuple[bool, int]:
    """What others wait for comes first, then what takes longest."""
    return bool(task.budget.kinds), -sum(len(each.graph.states) for each in task.known)


def _explore(worlds: Worlds, guards: Mapping[str, _Guard], screen: Screen, report: Path, limits: _Limits) -> None:
    """All orders of each guard, without a fault at first; its file is written, and its table shown."""
    tasks = [task for guard in guards.values() for task in guard.begin(limits)]
    with screen.live(lambda: [count for guard in guards.values() for count in guard.found.counts]) as show:
        for task, found in worlds.each(_explored, tasks):
            guard = guards[task.guard]
            if guard.take(task, found):
                show(guard.found, guard.found.write(report))
            elif limits.is_first_enough and found.graph and found.count.wrong_ends:
                guard.left, tasks[:] = [], [each for each in tasks if each.guard != task.guard]
            tasks += guard.begin(limits)
            tasks.sort(key=_urgency)
            screen.tick()
