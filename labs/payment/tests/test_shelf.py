"""What the shelf refuses, and that a step taken twice is one step: faults that come too seldom to be waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from app.sales.redis_client import connect
from app.sales.refusals import FencedOff
from labs.payment.contract import Order, Outcome, Payment
from labs.payment.shelf import Shelf
from loadtest.stack.servers import Redis

ADA, BOB = Payment("ada", "good"), Payment("bob", "good")


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
    assert shelf.read(BOB, fence=9) == "1"
    assert shelf.read(ADA, fence=10) == "1"
    with pytest.raises(FencedOff):
        shelf.read(BOB, fence=9)
    with pytest.raises(FencedOff):
        shelf.write(BOB, "1", fence=9)
    for _ in range(2):
        shelf.write(ADA, "1", fence=10)
    assert (shelf.read(ADA, fence=10), shelf.read(BOB, fence=10)) == ("1", None)
    assert shelf.read_all() == (0, [], [Order("ada", "1")])


def test_a_reservation_that_has_ended_is_no_order(shelf: Shelf) -> None:
    """Its item goes back once, its money is looked after; only a confirmation that does not check sells it again."""
    assert shelf.reserve(ADA) is None
    assert shelf.reserve(ADA) is None  # a retry
    assert shelf.reserve(BOB) is Outcome.RESERVED
    for _ in range(2):
        shelf.give_back(ADA.key)
    assert (shelf.read_all(), shelf.unsettled()) == ((0, ["1"], []), ["ada"])
    assert shelf.reserve(ADA) is Outcome.TOO_LATE
    assert shelf.reserve(BOB) is None
    assert not shelf.confirm(ADA.key, checked=True)
    assert shelf.read_all() == (1, [], [])
    assert shelf.confirm(ADA.key, checked=False)  # as `reserve` does: the item of another buyer
    assert shelf.read_all() == (1, [], [Order("ada", "1")])
