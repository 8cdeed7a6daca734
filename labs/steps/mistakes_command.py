"""`mistakes`: each famous wrong lock is condemned; mended by its own lines, it is cleared."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import click

from labs.steps.guard_files import GuardFile
from labs.steps.mistakes import diff_of, mended, mistakes
from labs.steps.schedules.explorations import Found, explored
from labs.steps.schedules.explorer import Task, budget_of
from labs.steps.schedules.quiescence import NoVerdict
from labs.steps.schedules.screen import LINK, PROGRESS_S, in_lines, sentence_of
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


class _Judged(NamedTuple):
    """What came of a mistake, or of its mended guard, with lines to print."""

    judgement: Judgement
    lines: Sequence[str]


@click.command("mistakes")
@click.argument("names", nargs=-1, type=click.Choice(list(mistakes())), metavar="[NAME]...")
def mistakes_command(names: Sequence[str]) -> None:
    """Try the famous wrong locks, and each of them once more with the lines that mend it.

    Without NAME all are tried. Exits with 0 if each is condemned, and cleared when it is mended; with 1 if one is not;
    with 2 if there is no verdict.
    """
    screen, chosen = console(), {name: kind for name, kind in mistakes().items() if name in names or not names}
    tasks = [_task(kind) for mistake in chosen.values() for kind in (mended(mistake), mistake)]
    tasks.sort(key=lambda task: task.buyers, reverse=True)  # those that take long are first
    judged: dict[tuple[str, bool], _Judged] = {}
    told = dict[GuardFile, float]()
    try:
        with scratch_directory() as directory, Worlds(directory, most=len(tasks)) as worlds:
            for task, found in worlds.each(explored, tasks):
                name, now = task.file.name, time.monotonic()
                if not found.is_over:
                    if now > told.setdefault(task.file, now) + PROGRESS_S:
                        told[task.file] = now
                        screen.print(f"{name}: {found.count.states:,} states so far", style="dim", markup=False)
                    continue
                judged[name, bool(task.file.renamed)] = _judged(task, found)
                wrong, right = (judged.get((name, is_mended)) for is_mended in (False, True))
                if wrong and right:
                    for line in (*wrong.lines, *_mend(chosen[name]), *right.lines):
                        screen.print(
                            line, markup=False, soft_wrap="://" in line, style="" if line[0] in " +-@" else "bold"
                        )
    except ServerError as error:
        raise NoVerdict(f"no verdict: {error.message}") from error
    sys.exit(_code(judged))


def _mend(kind: Any) -> list[str]:
    return [*(f"  Found: {place}" for place in kind.found.split(", ")), *diff_of(kind)]


def _code(judged: dict[tuple[str, bool], _Judged]) -> int:
    judgements = {(is_mended, each.judgement) for (_, is_mended), each in judged.items()}
    if judgements & {(False, Judgement.CLEARED), (True, Judgement.CONDEMNED)}:
        return NOT_AS_EXPECTED
    return NO_RESULT if any(each is Judgement.UNDECIDED for _, each in judgements) else 0


def _task(kind: Any) -> Task:
    """Explore it within the faults that the mistake needs; of a wrong one, up to its shortest wrong order."""
    return Task(GuardFile.of(kind), budget_of(kind), kind.items, kind.buyers, is_over_at_wrong=True)


def _judged(task: Task, found: Found) -> _Judged:
    count, explorer = found.count, found.explorer
    if explorer is None or count.no_verdict:
        return _Judged(Judgement.UNDECIDED, [f"{count.guard}: {Judgement.UNDECIDED.value}: {count.no_verdict}"])
    graph, wrong = explorer.graph, count.shortest[:1]
    judgement = Judgement.CONDEMNED if wrong else Judgement.UNDECIDED if count.cut else Judgement.CLEARED
    orders = "no shorter order is wrong" if wrong else f"{count.orders:,} orders, none of them wrong"
    lines = [
        f"{count.guard}: {judgement.value}. {task.buyers} purchases, {FAULTS.get(count.fault, count.fault)}: "
        f"{count.states:,} states, {'and no further' if graph.way_from(graph.states[0]) else orders}; "
        f"{count.seconds:.0f} s"
    ]
    for schedule in wrong:
        link = LINK.format(guard=count.guard, grain=task.granularity, path=schedule.path)
        ends = f"  {sentence_of(schedule.ending, task.items)}:"
        lines += [ends, *in_lines(schedule.words, WIDTH), f"  {link}"]
    return _Judged(judgement, lines)
