"""The judge shows each thing that can be wrong; the shelf refuses what would be: faults too rare to be waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from app.sales.redis_client import connect
from app.sales.refusals import FencedOff
from labs.payment.contract import DECLINED, PENDING, REFUNDED, SUCCEEDED, Order, Outcome, Payment
from labs.payment.judge import judge
from labs.payment.shelf import Shelf
from loadtest.stack.servers import Redis

ADA, BOB = Order("ada", "1"), Order("bob", "2")
PAID = {"ada": SUCCEEDED, "bob": SUCCEEDED}


JUDGED: list[tuple[list[str], list[Order], dict[str, str], dict[str, int]]] = [
    ([], [ADA, BOB], PAID, {"exact": 0}),
    ([], [ADA, BOB], PAID | {"eve": DECLINED, "cleo": REFUNDED, "dan": PENDING}, {"exact": 0}),
    ([], [ADA, BOB, Order("eve", "1")], PAID | {"eve": SUCCEEDED}, {"paid_twice": 1}),
    (["1"], [ADA, BOB], PAID, {"paid_twice": 1}),
    ([], [ADA, BOB], PAID | {"eve": SUCCEEDED}, {"money_without_item": 1}),
    ([], [ADA, BOB], {"ada": SUCCEEDED, "bob": REFUNDED}, {"item_without_money": 1}),
    ([], [ADA, BOB], {"ada": SUCCEEDED}, {"item_without_money": 1}),
    ([], [ADA, Order("ada", "2")], {"ada": SUCCEEDED}, {"item_without_money": 1}),
    ([], [ADA, ADA, BOB], PAID, {"item_without_money": 1}),
    ([], [ADA], {"ada": SUCCEEDED}, {"items_lost": 1}),
    (["2"], [ADA], {"ada": SUCCEEDED}, {"items_lost": 1}),
]


def test_each_flaw_is_counted_alone() -> None:
    """Two items: one payment for each is exact; what is given back or declined is no money.

    An item that nobody wants may stay on the shelf. Items that buyers who gave up have left are a slow machine's
    fault, which hides no flaw.
    """
    for left, orders, charges, found in JUDGED:
        assert judge(2, left, orders, charges, unserved=1, gave_up=0) == found
    assert judge(2, ["2"], [ADA], {"ada": SUCCEEDED}, unserved=0, gave_up=0) == {"exact": 0}
    assert judge(2, ["2"], [ADA], {"ada": SUCCEEDED}, unserved=1, gave_up=1) == {"too_slow": 1}
    assert judge(2, ["2"], [ADA], PAID, unserved=1, gave_up=1) == {"money_without_item": 1, "items_lost": 1}


# What the shelf refuses, and that a step taken twice is one step: faults that come too seldom to be waited for.


EVE, DAN = Payment("eve", "good"), Payment("dan", "good")


@pytest.fixture
def shelf(redis_server: Redis) -> Iterator[Shelf]:
    """A shelf with one item."""
    with closing(connect(redis_server.url, connections=1)) as client:
        client.flushall()
        shelf = Shelf(client, "shelf", "reserve-checked")
        shelf.open(1)
        yield shelf


def test_a_lower_token_neither_reads_nor_writes(shelf: Shelf) -> None:
    """Reading is enough to refuse all tokens before, and a write that is repeated sells once."""
    assert shelf.read(DAN, fence=9) == "1"
    assert shelf.read(EVE, fence=10) == "1"
    with pytest.raises(FencedOff):
        shelf.read(DAN, fence=9)
    with pytest.raises(FencedOff):
        shelf.write(DAN, "1", fence=9)
    for _ in range(2):
        shelf.write(EVE, "1", fence=10)
    assert (shelf.read(EVE, fence=10), shelf.read(DAN, fence=10)) == ("1", None)
    assert shelf.read_all() == (0, [], [Order("eve", "1")])


def test_a_reservation_that_has_ended_is_no_order(shelf: Shelf) -> None:
    """Its item goes back once, its money is looked after; only a confirmation that does not check sells it again."""
    assert shelf.reserve(EVE) is None
    assert shelf.reserve(EVE) is None  # a retry
    assert shelf.reserve(DAN) is Outcome.RESERVED
    for _ in range(2):
        shelf.give_back(EVE.key)
    assert (shelf.read_all(), shelf.unsettled()) == ((0, ["1"], []), ["eve"])
    assert shelf.reserve(EVE) is Outcome.TOO_LATE
    assert shelf.reserve(DAN) is None
    assert not shelf.confirm(EVE.key, checked=True)
    assert shelf.read_all() == (1, [], [])
    assert shelf.confirm(EVE.key, checked=False)  # as `reserve` does: the item of another buyer
    assert shelf.read_all() == (1, [], [Order("eve", "1")])
