"""`payment`: the same sale under three ways to be paid, with slow, late and declined payments."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import click

from labs.payment.crowd import Crowd
from labs.payment.screen import Judged, complaints, results_table
from labs.payment.stage import PaymentStack, Stage
from labs.payment.ways import WAYS
from loadtest.cli.options import language, no_pin
from loadtest.language import Message
from loadtest.results.comparison import NO_RESULT
from loadtest.stack.process import scratch_directory
from loadtest.terminal import console

ITEMS, BUYERS = 100, 200
EXPECTED = {"reserve": "paid_twice"}  # all others: EXACT
LATE = (5, 20, 35)  # early enough to get an item, and few: under a lock all others wait for them


def cards() -> list[str]:
    """The card of each buyer: three pay late, some are slow, a tenth is declined."""
    usual = {3: "declined", 13: "declined", 8: "slow"}
    return ["late" if number in LATE else usual.get(number % 20, "good") for number in range(BUYERS)]


@click.command()
@click.option("--way", "ways", multiple=True, type=click.Choice(list(WAYS)), help="Repeatable; default: all.")
@no_pin
@language
def payment(ways: Sequence[str], language: str) -> None:
    """Sell 100 items to 200 buyers who pay at a provider, under three ways to be paid.

    Exits with 0 if an item was paid for twice under `reserve`, and everything is exact under the others; with 1 if not,
    and with 2 if this machine is too slow.
    """
    screen, judged = console(), list[Judged]()
    with scratch_directory() as directory, PaymentStack(directory) as stack:
        stage = Stage(stack)
        for way in ways or WAYS:
            with screen.status(way) as status:

                def show(orders: int, seconds: float) -> None:
                    status.update(f"{way}: {orders}/{ITEMS}, {seconds:.0f} s")  # noqa: B023, called in this turn

                result = stage.sell(way, ITEMS, partial(rush, shops=stack.urls), show)
            judged.append(Judged(result, EXPECTED.get(way, "")))
    title = "{buyers} buyers, {items} items; {late} pay late, {declined} are declined"
    counts = {"late": len(LATE), "declined": cards().count("declined")}
    screen.print(results_table(judged, language, Message.of(title, buyers=BUYERS, items=ITEMS, **counts)))
    for line in complaints(judged, language):
        screen.print(line, markup=False)
    sys.exit(exit_code(judged))


def rush(crowd: Crowd, *, shops: Sequence[str]) -> None:
    """Have all buyers click at once."""
    for card in cards():
        crowd.send_next(card, shops)


def exit_code(judged: Sequence[Judged]) -> int:
    """0 if all are as expected, 1 if one is not, else 2: one has no verdict."""
    if any(each.as_expected is False for each in judged):
        return 1
    return NO_RESULT if any(each.as_expected is None for each in judged) else 0
