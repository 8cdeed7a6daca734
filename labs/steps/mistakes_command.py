"""`mistakes`: each famous wrong lock is condemned; mended by its own lines, it is cleared."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import click

from labs.steps.mistakes import diff_of, mended, mistakes
from labs.steps.schedules.explorer import Explorer, budget_of
from labs.steps.schedules.world import World
from labs.steps.schedules.worlds import Worlds
from loadtest.results.comparison import NO_RESULT
from loadtest.shop_client.ledgers import UNREADABLE
from loadtest.shop_client.shops import SaleError
from loadtest.stack.process import ServerError, scratch_directory
from loadtest.terminal import console
from lock import LockError

MOST_S = 300.0
NOT_AS_EXPECTED = 1  # exit code


Line = tuple[str, str]  # with its style


class NoVerdict(click.ClickException):
    """The exploration cannot go on; the message is one line that says what to do."""

    exit_code = NO_RESULT


class Judgement(Enum):
    """What came of a lock."""

    CONDEMNED = "condemned"
    CLEARED = "cleared"
    UNDECIDED = "no verdict: not everything was tried"


@click.command("mistakes")
@click.argument("names", nargs=-1, type=click.Choice(list(mistakes())), metavar="[NAME]...")
def mistakes_command(names: Sequence[str]) -> None:
    """Try the famous wrong locks, and each of them once more with the lines that mend it.

    Without NAME all are tried. Exits with 0 if each is condemned, and cleared when it is mended; with 1 if one is not;
    with 2 if there is no verdict.
    """
    screen = console()
    chosen = [kind for name, kind in mistakes().items() if name in names or not names]
    with scratch_directory() as directory:
        worlds = Worlds(directory)
        try:
            worlds.start()
            judged = []
            for code, lines in worlds.each(_try, chosen):
                judged.append(code)
                for text, style in lines:
                    screen.print(text, style=style, markup=False, soft_wrap=True)
        except (ServerError, SaleError) as error:
            raise NoVerdict(f"no verdict: {error.message}") from error
        except (LockError, *UNREADABLE) as error:
            raise NoVerdict(f"no verdict: etcd or Redis does not answer: {error}") from error
        finally:
            worlds.stop()
    sys.exit(max(judged, key=(0, NO_RESULT, NOT_AS_EXPECTED).index, default=0))


def _try(world: World, kind: type[Any]) -> tuple[int, list[Line]]:
    """Explore a mistake, and what its mend makes of it: the exit code, and what is printed."""
    world.buyers, world.items = kind.buyers, kind.items
    judgement, before = _explore(world, kind)
    diff = [(line, "") for line in (f"  Found: {kind.found}", *diff_of(kind))]
    after, mend = _explore(world, mended(kind))
    lines = [*before, *diff, *mend]
    if judgement is Judgement.CLEARED or after is Judgement.CONDEMNED:
        return NOT_AS_EXPECTED, lines
    return NO_RESULT if Judgement.UNDECIDED in (judgement, after) else 0, lines


def _explore(world: World, kind: type[Any]) -> tuple[Judgement, list[Line]]:
    """Within the faults that the mistake needs."""
    explorer, began = Explorer(world, kind, budget_of(kind), seconds=MOST_S), time.monotonic()
    for _ in explorer.explore():
        pass
    graph = explorer.graph
    orders, wrong = graph.orders(), graph.shortest()
    judgement = Judgement.CONDEMNED if wrong else Judgement.UNDECIDED if graph.cut else Judgement.CLEARED
    faults = {"none": "no fault", "kill": "kill -9", "lost": "an answer lost"}
    said = (
        f"{kind.name}: {judgement.value}. {world.buyers} purchases, {faults.get(kind.fault, kind.fault)}: "
        f"{len(graph.states):,} states, {orders['all']:,} orders, {orders['wrong']:,} of them wrong; "
        f"{time.monotonic() - began:.0f} s{', and no further' if graph.cut else ''}"
    )
    lines = [(said, "bold")]
    if wrong:
        schedule = replace(explorer.schedules[wrong[0].number], moves=wrong[1])
        path = f"/steps#guard={kind.name}&grain={world.grain}&schedule={schedule.path}"
        lines += [(f"  {schedule.line}", ""), (f"  {path}", "dim")]
    return judgement, lines
