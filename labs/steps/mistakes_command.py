"""`mistakes`: each famous wrong lock is condemned; mended by its own lines, it is cleared."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import click

from labs.steps.mistakes import diff_of, mended, mistakes
from labs.steps.schedules.endings import sentence_of
from labs.steps.schedules.explorer import Explorer, budget_of
from labs.steps.schedules.quiescence import NoVerdict
from labs.steps.schedules.screen import LINK, PROGRESS_S, in_lines
from labs.steps.schedules.world import World
from labs.steps.schedules.worlds import Worlds
from loadtest.results.comparison import NO_RESULT
from loadtest.stack.process import ServerError, scratch_directory
from loadtest.terminal import console

NOT_AS_EXPECTED = 1  # exit code
WIDTH = 80
SHOW_S = 0.5  # how often a world tells of its way, which is printed each `PROGRESS_S`

Line = tuple[str, str]  # with its style


class NoMistakes(click.ClickException):
    """The exploration cannot go on; the message is one line that says what to do."""

    exit_code = NO_RESULT


class Judgement(Enum):
    """What came of a lock."""

    CONDEMNED = "condemned"
    CLEARED = "cleared"
    UNDECIDED = "no verdict"


@click.command("mistakes")
@click.argument("names", nargs=-1, type=click.Choice(list(mistakes())), metavar="[NAME]...")
def mistakes_command(names: Sequence[str]) -> None:
    """Try the famous wrong locks, and each of them once more with the lines that mend it.

    Without NAME all are tried. Exits with 0 if each is condemned, and cleared when it is mended; with 1 if one is not;
    with 2 if there is no verdict.
    """
    screen = console()
    chosen = [name for name in mistakes() if name in names or not names]
    tasks = sorted(((name, is_mended) for name in chosen for is_mended in (True, False)), key=_purchases, reverse=True)
    found: dict[str, dict[bool, _Found]] = {name: {} for name in chosen}
    with scratch_directory() as directory:
        worlds = Worlds(directory, most=len(tasks))
        try:
            worlds.start()
            shown, many = time.monotonic(), len(tasks)
            for (name, is_mended), judged in worlds.each(_try, tasks):
                if isinstance(judged, _Found):
                    found[name][is_mended] = judged
                elif time.monotonic() > shown + PROGRESS_S:
                    done = sum(map(len, found.values()))
                    screen.print(f"{done} of {many} tried; {name}: {judged:,} states so far", style="dim")
                    shown = time.monotonic()
                if len(found[name]) > 1 and isinstance(judged, _Found):
                    shown = time.monotonic()
                    for text, style in _lines(name, found[name]):
                        screen.print(text, style=style, markup=False, soft_wrap="://" in text)
        except ServerError as error:
            raise NoMistakes(f"no verdict: {error.message}") from error
        finally:
            worlds.stop()
    codes = [_code(each[False].judgement, each[True].judgement) for each in found.values()]
    sys.exit(max(codes, key=(0, NO_RESULT, NOT_AS_EXPECTED).index, default=0))


class _Found(NamedTuple):
    """What came of a mistake, or of its mended guard."""

    judgement: Judgement
    lines: list[Line]


def _purchases(task: tuple[str, bool]) -> int:
    """With more of them, it takes longer."""
    buyers: int = getattr(mistakes()[task[0]], "buyers", 2)
    return buyers


def _lines(name: str, found: Mapping[bool, _Found]) -> list[Line]:
    kind: Any = mistakes()[name]
    seen = [f"  Found: {place}" for place in kind.found.split(", ")]
    return [*found[False].lines, *((line, "") for line in (*seen, *diff_of(kind))), *found[True].lines]


def _code(before: Judgement, mended: Judgement) -> int:
    if before is Judgement.CLEARED or mended is Judgement.CONDEMNED:
        return NOT_AS_EXPECTED
    return NO_RESULT if Judgement.UNDECIDED in (before, mended) else 0


def _try(world: World, task: tuple[str, bool]) -> Iterator[_Found | int]:
    """Explore it within the faults that the mistake needs; of a wrong one, up to its shortest wrong order.

    Before it is found, so many states as there are by then.
    """
    name, is_mended = task
    kind: Any = mistakes()[name]
    world.buyers, world.items = kind.buyers, kind.items
    kind = mended(kind) if is_mended else kind
    explorer = Explorer(world, kind, budget_of(kind), is_over_at_wrong=True)
    began = shown = time.monotonic()
    try:
        for _ in explorer.explore():
            if time.monotonic() > shown + SHOW_S:
                shown = time.monotonic()
                yield len(explorer.graph.states)
    except NoVerdict as error:
        yield _Found(Judgement.UNDECIDED, [(f"{kind.name}: {Judgement.UNDECIDED.value}: {error.message}", "bold")])
        return
    graph, wrong = explorer.graph, explorer.shortest[:1]
    judgement = Judgement.CONDEMNED if wrong else Judgement.UNDECIDED if graph.cut else Judgement.CLEARED
    faults = {"none": "no fault", "kill": "kill -9", "lost": "an answer lost"}
    is_whole = not graph.way_from(graph.states[0])
    orders = "no shorter order is wrong" if wrong else f"{graph.orders()['all']:,} orders, none of them wrong"
    said = (
        f"{kind.name}: {judgement.value}. {world.buyers} purchases, {faults.get(kind.fault, kind.fault)}: "
        f"{len(graph.states):,} states, {orders if is_whole else 'and no further'}; {time.monotonic() - began:.0f} s"
    )
    lines = [(said, "bold")]
    for schedule in wrong:
        link = LINK.format(guard=kind.name, grain=world.granularity, path=schedule.path)
        lines += [
            (f"  {sentence_of(schedule.ending, world.items)}:", ""),
            *((line, "") for line in in_lines(schedule.words, WIDTH)),
            (f"  {link}", "dim"),
        ]
    yield _Found(judgement, lines)
