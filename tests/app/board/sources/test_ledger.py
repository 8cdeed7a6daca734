"""Reading the sale as it goes on: every order once, and none lost to a reset."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from app.board.sources import ledger as module
from app.board.sources.ledger import LedgerReader
from app.config.settings import Settings
from app.sales.inventory import Inventory
from app.sales.purchase import Purchase
from app.sales.redis_client import connect
from app.sales.sale import Sale
from app.sales.slots import Snapshot


@pytest.fixture
def reader(settings: Settings) -> Iterator[LedgerReader]:
    """Reads this test's sale."""
    with connect(settings.redis_url, connections=1) as client:
        yield LedgerReader(client, settings.sale)


def buy(sale: Sale, *buyers: str) -> None:
    """One item for each."""
    for buyer in buyers:
        Inventory(sale, instance="shop-a").sell(Purchase(buyer, "redis-lua"))


def read(reader: LedgerReader) -> module.LedgerReading:
    """A reading of a sale that is open."""
    reading = reader.read()
    assert reading is not None
    return reading


def test_a_sale_that_was_never_opened(reader: LedgerReader, settings: Settings) -> None:
    """Looking on opens nothing."""
    assert reader.read() is None
    with redis.Redis.from_url(settings.redis_url) as client:
        assert not client.keys(f"*{settings.sale}*")


def test_each_order_is_read_once(reader: LedgerReader, sale: Sale) -> None:
    """A reading brings the counters, and the orders since the last one."""
    buy(sale, "ada", "bob")
    first = read(reader)
    assert [order.buyer for order in first.new] == ["ada", "bob"]
    assert first.snapshot == Snapshot(initial=10, stock=8, lucky=2, orders=2)
    buy(sale, "eve")
    second = read(reader)
    assert [(order.buyer, order.instance, order.guard) for order in second.new] == [("eve", "shop-a", "redis-lua")]
    assert second.generation == first.generation
    assert read(reader).new == []


def test_a_reset_loses_nothing(reader: LedgerReader, sale: Sale) -> None:
    """Orders between the last reading and the reset are brought by the next one, with the counters of the end."""
    buy(sale, "ada")
    before = read(reader)
    buy(sale, "bob", "eve")
    sale.reset(5)
    buy(sale, "dan")
    after = read(reader)
    assert after.ended is not None
    assert [order.buyer for order in after.ended.rest] == ["bob", "eve"]
    assert after.ended.snapshot == Snapshot(initial=10, stock=7, lucky=3, orders=3)
    assert [order.buyer for order in after.new] == ["dan"]
    assert after.generation != before.generation


def test_a_run_that_was_missed_is_not_mistaken(reader: LedgerReader, sale: Sale) -> None:
    """After two resets with a run in between, the end of the one that was watched is not known, and is not made up."""
    buy(sale, "ada")
    read(reader)
    sale.reset(5)
    buy(sale, "bob")
    sale.reset(5)
    assert read(reader).ended is None


def test_a_long_ledger_comes_in_parts(reader: LedgerReader, sale: Sale, monkeypatch: pytest.MonkeyPatch) -> None:
    """No reading is larger than the limit; the next one goes on."""
    monkeypatch.setattr(module, "MOST_NEW", 2)
    buy(sale, "a", "b", "c")
    assert [order.buyer for order in read(reader).new] == ["a", "b"]
    assert [order.buyer for order in read(reader).new] == ["c"]


def test_the_redis_lock_is_seen(reader: LedgerReader, sale: Sale) -> None:
    """While redis-py's lock is held, its remaining life is known."""
    assert read(reader).redis_lock_ms is None
    sale.client.set(sale.keys.lock, "somebody", px=5000)
    left = read(reader).redis_lock_ms
    assert left is not None
    assert 0 < left <= 5000
