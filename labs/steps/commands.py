"""`schedules`: every order of a few purchases under a guard, tried by a machine."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from app.contract.clock import utc_now
from app.guards import Guard, broken, guards
from labs.steps.guard_files import BrokenGuard, GuardFile
from labs.steps.mistakes import mistakes
from labs.steps.mistakes_command import mistakes_command
from labs.steps.schedules.explorations import Found, explored
from labs.steps.schedules.explorer import MOST_S, NO_FAULT, Task, budgets_of
from labs.steps.schedules.quiescence import NoVerdict
from labs.steps.schedules.recording import recorded
from labs.steps.schedules.results import Count, Exploration, packed
from labs.steps.schedules.screen import Screen
from labs.steps.schedules.world import BUYERS
from labs.steps.schedules.worlds import Worlds
from labs.steps.stepped import COMMANDS
from loadtest.cli.options import language
from loadtest.results.comparison import BROKEN_PROMISE
from loadtest.results.folders import report_under_way
from loadtest.stack.process import ServerError, scratch_directory
from loadtest.terminal import console

__all__ = ["mistakes_command", "schedules"]

DEFAULT_GUARDS = ["none", "etcd"]
SIZES = (1, 2)  # items: what one hides, two may show
CUT = NoVerdict.exit_code  # exit code: nothing wrong was found, and something was not tried


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
    chosen, broken_files = _chosen(names or DEFAULT_GUARDS)
    screen, sizes = Screen(console(), language), sorted(set(items)) or SIZES
    limits = {"seconds": limit, "is_first_enough": first}
    found = {name: _Guard(kind, sizes, buyers, faults, **limits) for name, kind in chosen.items()}
    for sentence in broken_files:
        screen.broken(sentence)
    if not found:
        sys.exit(CUT)
    with report_under_way() as report, scratch_directory() as directory:
        worlds = Worlds(directory, most=sum(each.most for each in found.values()))
        try:
            worlds.launch()
            with screen.starting():
                worlds.wait_ready()
            if record is not None:
                recorded(worlds, chosen, record, screen.console)
                return
            screen.begin(sizes, buyers)
            _explore(worlds, found, screen, report)
        except ServerError as error:
            raise NoVerdict(f"no verdict: {error.message}") from error
        finally:
            worlds.stop()
    unkept = [each.found.guard for each in found.values() if not each.found.kept]
    is_cut = any(each.found.is_cut for each in found.values()) or bool(broken_files)
    screen.end(unkept, is_cut=is_cut, buyers=buyers, faults=faults)
    sys.exit(BROKEN_PROMISE if unkept else CUT if is_cut else 0)


def _chosen(names: Sequence[str]) -> tuple[dict[str, type[Guard]], list[str]]:
    """The guards that are meant, by name, and what is wrong with the files that are none."""
    known = {**guards(), **mistakes()}
    found = {name: kind for name, kind in known.items() if name in names or ("all" in names and name in guards())}
    wrong = []
    for name in names:
        if name.endswith(".py"):
            try:
                kind = GuardFile(str(Path(name).resolve())).load()
                found[kind.name] = kind
            except BrokenGuard as error:
                wrong.append(str(error))
        elif name in broken():
            wrong.append(broken()[name])
        elif name not in known and name != "all":
            raise click.BadParameter(f"there is no guard {name!r}: choose from {', '.join([*known, 'all'])}.")
    return found, wrong


class _Guard:
    """A guard under exploration."""

    def __init__(self, kind: type[Guard], sizes: Sequence[int], buyers: int, faults: int, **limits: Any) -> None:
        # What came of it so far.
        self.found = Exploration(kind.name, kind.promise.value, COMMANDS, sizes[0], buyers, utc_now())
        self._budgets = budgets_of(kind) if faults else [NO_FAULT]
        # Its explorations that have not ended.
        self.left = [Task(GuardFile.of(kind), items=items, buyers=buyers, **limits) for items in sizes]
        self.most = len(self.left) * len(self._budgets)  # explorations, at the same time

    def take(self, task: Task, found: Found) -> list[Task]:
        """Keep all that is found by an exploration; those that follow it."""
        self.left.remove(task)
        explorer = found.explorer
        graph = packed(explorer.graph, explorer.schedules, fault=task.budget.name) if explorer else {}
        self.found.add(found.count, graph)
        self.found.source = found.source
        if task.known is not None or not found.is_complete:
            return []
        follow = [task._replace(budget=budget, known=explorer) for budget in self._budgets[1:]]
        self.left += follow
        return follow


def _urgency(task: Task) -> tuple[bool, int]:
    """What others wait for comes first, then what takes longest."""
    return task.known is not None, -len(task.known.graph.states) if task.known else 0


def _explore(worlds: Worlds, guards: Mapping[str, _Guard], screen: Screen, report: Path) -> None:
    """All orders of each guard; its file is written, and its table shown."""
    tasks = [task for guard in guards.values() for task in guard.left]
    under_way: dict[tuple[str, int, str], Count] = {}
    with screen.under_way() as show:
        for task, found in worlds.each(explored, tasks):
            count, place = found.count, (task.file.name, task.items, task.budget.name)
            under_way[place] = count
            if found.is_over:
                del under_way[place]
                guard = guards[count.guard]
                tasks += guard.take(task, found)
                if task.is_first_enough and count.wrong_ends:
                    guard.left = [each for each in guard.left if each not in tasks]  # those that have begun
                    tasks[:] = [each for each in tasks if each.file.name != count.guard]
                tasks.sort(key=_urgency)
                if not guard.left:
                    screen.result(guard.found, guard.found.write(report))
            show(under_way.values())
