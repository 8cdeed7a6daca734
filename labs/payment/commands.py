"""`payment`: the same sale under three ways to be paid, with slow, late and declined payments."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from labs.payment.crowd import Crowd
from labs.payment.screen import Judged, complaint, results_table
from labs.payment.stage import PaymentStack
from labs.payment.ways import WAYS
from loadtest.cli.options import language, no_pin
from loadtest.language import Message
from loadtest.results.comparison import NO_RESULT
from loadtest.stack.process import scratch_directory
from loadtest.terminal import console

ITEMS, BUYERS = 100, 200
EXPECTED = {"reserve": "paid_twice"}  # all others: exact
LATE = 3  # the first to click, so that they get an item; under a lock all others wait for them
USUAL = {3: "declined", 8: "slow", 13: "declined"}
CARDS = ["late" if number < LATE else USUAL.get(number % 20, "good") for number in range(BUYERS)]


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
    with scratch_directory() as directory, PaymentStack(directory) as stack, screen.status("") as status:

        def rush(crowd: Crowd) -> None:
            for card in CARDS:
                crowd.send_next(card, stack.urls)

        for way in ways or WAYS:
            result = stack.sell(way, ITEMS, rush, status.update)
            judged.append(Judged(result, EXPECTED.get(way, "exact")))
    title = "{buyers} buyers, {items} items; {late} pay late, {declined} are declined"
    counts = {"late": LATE, "declined": CARDS.count("declined")}
    screen.print(results_table(judged, language, Message.of(title, buyers=BUYERS, items=ITEMS, **counts)))
    for said in filter(None, (complaint(each.result) for each in judged)):
        screen.print(said.in_language(language), markup=False)
    found = [each.as_expected for each in judged]
    sys.exit(1 if False in found else NO_RESULT if None in found else 0)
