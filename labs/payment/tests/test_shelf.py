"""Each script of the shelf alone: what it refuses, and that a step taken twice is one step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from app.sales.redis_client import connect
from app.sales.refusals import FencedOff
from labs.payment import shelf as module
from labs.payment.contract import Order, Outcome, Payment
from labs.payment.shelf import Shelf
from loadtest.stack.servers import Redis
from tests.support.waiting import wait_until

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


def test_an_order_is_for_ever(shelf: Shelf) -> None:
    """Confirmed twice it is one order, and it cannot be given back."""
    shelf.reserve(ADA)
    for _ in range(2):
        assert shelf.confirm(ADA.key, checked=True)
    shelf.give_back(ADA.key)
    assert (shelf.reserve(ADA), shelf.reserve(BOB)) == (None, Outcome.SOLD_OUT)
    assert (shelf.read_all(), shelf.unsettled()) == ((0, [], [Order("ada", "1")]), [])


def test_a_reservation_is_overdue_behind_its_end_alone(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Redis's clock: of two the one that has ended."""
    shelf.open(2)
    for payment, milliseconds in ((ADA, 600_000), (BOB, 1)):
        monkeypatch.setattr(module, "RESERVED_MS", milliseconds)
        assert shelf.reserve(payment) is None
    wait_until(lambda: shelf.overdue() == [BOB.key])
