"""The stages that sell: one purchase, one buyer after another, and a rush. They raise `Lost`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from app.contract.outcomes import Outcome
from labs.grade.sale import GradedSale
from labs.grade.stages import CONTRACT, ONE, RUSH, CannotSell, Lost
from loadtest.results.audit import Audit
from loadtest.stack.stack import Stack

PIECES, BUYERS = 40, 60
THINK_S = 0.01  # between a read and its write, so that a rush surely shows a guard without a lock
RUSHES = 2  # a race that one misses, another meets


def contract(servers: Stack, guard: Path) -> None:
    """One purchase of each of two items: a receipt, one order of it, one item less; and nothing that is forbidden."""
    with _opened(servers, guard) as sale:
        _require_sold(sale, "2", sale.buy(["bob"], item="2", first=1)[0].outcome)
        if habits := sale.habits():
            raise Lost(habits[0])


@contextmanager
def _opened(servers: Stack, guard: Path) -> Iterator[GradedSale]:
    """A sale that has sold one item; raises CannotSell if it cannot."""
    with ExitStack() as open:
        try:
            sale = open.enter_context(GradedSale(servers, guard, stock=1, seconds=CONTRACT.seconds))
            _require_sold(sale, "1", sale.buy(["ada"])[0].outcome)
        except Lost as lost:
            raise CannotSell(str(lost)) from None
        yield sale


def _require_sold(sale: GradedSale, item: str, outcome: Outcome) -> None:
    entries, left = sale.ledger(item)
    if outcome is not Outcome.SOLD:
        raise Lost(f"One item was for sale, and the only buyer was told {outcome.value!r}. {sale.answers[-1].detail}")
    if [entry.order for entry in entries] != [sale.answers[-1].order]:
        raise Lost(f"The buyer of item {item} was told that it is sold, and the ledger has {len(entries)} orders.")
    if left:
        raise Lost(f"Item {item} was sold, and the counter says that {left} of 1 are left.")


def one_buyer(servers: Stack, guard: Path) -> None:
    """Five items, eight buyers, one after the other, at two instances in turn."""
    with GradedSale(servers, guard, stock=5, seconds=ONE.seconds) as sale:
        for number in range(8):
            sale.buy([f"buyer-{number + 1}"], first=number % 2)
        _require_exact(sale, buyers=8)


def rush(servers: Stack, guard: Path) -> None:
    """All at once, some times over."""
    for _ in range(RUSHES):
        with GradedSale(servers, guard, stock=PIECES, seconds=RUSH.seconds / RUSHES) as sale:
            sale.buy([f"buyer-{number + 1}" for number in range(BUYERS)], think_s=THINK_S)
            _require_exact(sale, buyers=BUYERS)


def _require_exact(sale: GradedSale, *, buyers: int) -> None:
    entries, left = sale.ledger()
    verdict = Audit(sale.stock, left, entries, sale.answers).verdict()
    unserved = [each for each in sale.answers if not each.outcome.is_served]
    if verdict.exact and not unserved:
        return
    said = f"{buyers} buyers, {sale.stock} items, {len(entries)} orders: {verdict.sentence}."
    if unserved:
        one = unserved[0]
        said += f' {len(unserved)} got neither an item nor "sold out": {one.outcome.value}. {one.detail}'
    raise Lost(said.rstrip())
