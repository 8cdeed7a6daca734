"""`mistakes`: each famous wrong lock is condemned; mended by its own lines, it is cleared."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

import click

from labs.steps.mistakes import diff_of, mended, mistakes
from labs.steps.schedules.explorer import Explorer, budget_of
from labs.steps.schedules.quiescence import NoVerdict
from labs.steps.schedules.screen import LINK, PROGRESS_S, in_lines, sentence_of
from labs.steps.schedules.world import World
from labs.steps.schedules.worlds import Worlds
from loadtest.results.comparison import NO_RESULT
from loadtest.stack.process import ServerError, scratch_directory
from loadtest.terminal import console

NOT_AS_EXPECTED = 1  # exit code
WIDTH = 80
FAULTS = {"none": "no fault", "kill": "kill -9", "lost": "an answer lost"}


class Judgement(Enum):
    """What came of a lock."""

    CONDEMNED = "condemned"
    CLEARED = "cleared"
    UNDECIDED = "no verdict"


class _Found(NamedTuple):
    """What came of a mistake, or of its mended guard: lines to print; none as long as it goes on."""

    judgement: Judgement
    states: int
    lines: Sequence[str] = ()


@click.command("mistakes")
@click.argument("names", nargs=-1, type=click.Choice(list(mistakes())), metavar="[NAME]...")
def mistakes_command(names: Sequence[str]) -> None:
    """Try the famous wrong locks, and each of them once more with the lines that mend it.

    Without NAME all are tried. Exits with 0 if each is condemned, and cleared when it is mended; with 1 if one is not;
    with 2 if there is no verdict.
    """
    screen, chosen = console(), {name: kind for name, kind in mistakes().items() if name in names or not names}
    tasks = [(name, is_mended) for name in chosen for is_mended in (True, False)]
    tasks.sort(key=lambda task: getattr(chosen[task[0]], "buyers", 2), reverse=True)  # those that take long are first
    found: dict[tuple[str, bool], _Found] = {}
    with scratch_directory() as directory:
        worlds = Worlds(directory, most=len(tasks))
        try:
            worlds.start()
            for task, result in worlds.each(_try, tasks):
                if not result.lines:
                    screen.print(f"{task[0]}: {result.states:,} states so far", style="dim", markup=False)
                    continue
                found[task] = result
                wrong, right = (found.get((task[0], is_mended)) for is_mended in (False, True))
                if wrong and right:
                    for line in (*wrong.lines, *_mend(chosen[task[0]]), *right.lines):
                        screen.print(
                            line, markup=False, soft_wrap="://" in line, style="" if line[0] in " +-@" else "bold"
                        )
        except ServerError as error:
            raise NoVerdict(f"no verdict: {error.message}") from error
        finally:
            worlds.stop()
    sys.exit(_code(found))


def _mend(kind: Any) -> list[str]:
    return [*(f"  Found: {place}" for place in kind.found.split(", ")), *diff_of(kind)]


def _code(found: dict[tuple[str, bool], _Found]) -> int:
    judgements = {(is_mended, each.judgement) for (_, is_mended), each in found.items()}
    if judgements & {(False, Judgement.CLEARED), (True, Judgement.CONDEMNED)}:
        return NOT_AS_EXPECTED
    return NO_RESULT if any(each is Judgement.UNDECIDED for _, each in judgements) else 0


def _try(world: World, task: tuple[str, bool]) -> Iterator[_Found]:
    """Explore it within the faults that the mistake needs; of a wrong one, up to its shortest wrong order."""
    name, is_mended = task
    kind: Any = mended(mistakes()[name]) if is_mended else mistakes()[name]
    world.buyers, world.items = kind.buyers, kind.items
    explorer = Explorer(world, kind, budget_of(kind), is_over_at_wrong=True)
    began = told = time.monotonic()
    try:
        for _ in explorer.explore():
            if time.monotonic() > told + PROGRESS_S:
                told = time.monotonic()
                yield _Found(Judgement.UNDECIDED, len(explorer.graph.states))
    except NoVerdict as error:
        yield _Found(Judgement.UNDECIDED, 0, [f"{kind.name}: {Judgement.UNDECIDED.value}: {error.message}"])
        return
    graph, wrong = explorer.graph, explorer.shortest[:1]
    judgement = Judgement.CONDEMNED if wrong else Judgement.UNDECIDED if graph.cut else Judgement.CLEARED
    orders = "no shorter order is wrong" if wrong else f"{graph.orders()['all']:,} orders, none of them wrong"
    lines = [
        f"{kind.name}: {judgement.value}. {world.buyers} purchases, {FAULTS.get(kind.fault, kind.fault)}: "
        f"{len(graph.states):,} states, {'and no further' if graph.way_from(graph.states[0]) else orders}; "
        f"{time.monotonic() - began:.0f} s"
    ]
    for schedule in wrong:
        link = LINK.format(guard=kind.name, grain=world.granularity, path=schedule.path)
        ends = f"  {sentence_of(schedule.ending, world.items)}:"
        lines += [ends, *in_lines(schedule.words, WIDTH), f"  {link}"]
    yield _Found(judgement, len(graph.states), lines)
