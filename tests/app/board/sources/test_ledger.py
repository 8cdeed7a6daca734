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
from app.sales.sale import Sale, Snapshot


@pytest.fixture
def reader(settings: Settings) -> Iterator[LedgerReader]:
    """Reads this test's sale."""
    client = connect(settings.redis_url, connections=1)
    yield LedgerReader(client, settings.sale)
    client.close()


@pytest.fixture
def inventory(sale: Sale) -> Inventory:
    """The sale's inventory, as instance shop-a sells from it."""
    return Inventory(sale, instance="shop-a")


def buy(inventory: Inventory, *buyers: str) -> None:
    """One item for each."""
    for buyer in buyers:
        inventory.sell(Purchase(buyer=buyer, guard="redis-lua"))


def read(reader: LedgerReader) -> module.LedgerReading:
    """A reading of a sale that is open."""
    reading = reader.read()
    assert reading is not None
    return reading


def test_a_sale_that_was_never_opened(reader: LedgerReader, settings: Settings) -> None:
    """Looking on opens nothing."""
    assert reader.read() is None
    client = redis.Redis.from_url(settings.redis_url)
    assert not client.keys(f"*{settings.sale}*")
    client.close()


def test_each_order_is_read_once(reader: LedgerReader, inventory: Inventory) -> None:
    """A reading brings the counters, and the orders since the last one."""
    buy(inventory, "ada", "bob")
    first = read(reader)
    assert [order.buyer for order in first.new] == ["ada", "bob"]
    assert first.snapshot == Snapshot(initial=10, stock=8, lucky=2, orders=2)
    buy(inventory, "eve")
    second = read(reader)
    assert [(order.buyer, order.instance, order.guard) for order in second.new] == [("eve", "shop-a", "redis-lua")]
    assert second.generation == first.generation
    assert read(reader).new == []


def test_a_reset_loses_nothing(reader: LedgerReader, inventory: Inventory, sale: Sale) -> None:
    """Orders between the last reading and the reset are brought by the next one, with the counters of the end."""
    buy(inventory, "ada")
    before = read(reader)
    buy(inventory, "bob", "eve")
    sale.reset(5)
    buy(inventory, "dan")
    after = read(reader)
    assert after.ended is not None
    assert [order.buyer for order in after.ended.rest] == ["bob", "eve"]
    assert after.ended.snapshot == Snapshot(initial=10, stock=7, lucky=3, orders=3)
    assert [order.buyer for order in after.new] == ["dan"]
    assert after.generation != before.generation


def test_a_run_that_was_missed_is_not_mistaken(reader: LedgerReader, inventory: Inventory, sale: Sale) -> None:
    """After two resets with a run in between, the end of the one that was watched is not known, and is not made up."""
    buy(inventory, "ada")
    read(reader)
    sale.reset(5)
    buy(inventory, "bob")
    sale.reset(5)
    assert read(reader).ended is None


def test_a_long_ledger_comes_in_parts(
    reader: LedgerReader, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reading is larger than the limit; the next one goes on."""
    monkeypatch.setattr(module, "MOST_NEW", 2)
    buy(inventory, "a", "b", "c")
    assert [order.buyer for order in read(reader).new] == ["a", "b"]
    assert [order.buyer for order in read(reader).new] == ["c"]


def test_the_redis_lock_is_seen(reader: LedgerReader, sale: Sale) -> None:
    """While redis-py's lock is held, its remaining life is known."""
    assert read(reader).redis_lock_ms is None
    sale.client.set(sale.keys.lock, "somebody", px=5000)
    left = read(reader).redis_lock_ms
    assert left is not None
    assert 0 < left <= 5000
