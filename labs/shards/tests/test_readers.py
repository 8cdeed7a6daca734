"""The board, the shop and the rush see the shards, wherever they lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from flask import Flask

from app.board.sources.ledger import LedgerReader
from app.config.settings import Settings
from app.sales.purchase import Purchase, Section
from app.sales.redis_client import connect
from app.sales.sale import Sale
from app.sales.snapshot import SaleSnapshot
from labs.shards.shards import ShardedStock
from labs.shards.transfer import Transfers
from loadtest.shop_client.ledgers import Ledgers
from tests.support.shops import buy


@pytest.fixture
def reader(settings: Settings) -> Iterator[LedgerReader]:
    with connect(settings.redis_url, connections=1) as client:
        yield LedgerReader(client, settings.sale)


def sell(stock: ShardedStock, number: int, instance: str) -> None:
    (result,) = stock.sell(stock.shards[number], [Section(Purchase("ada", "etcd-sharded", instance=instance))])
    assert result is not None


def test_the_board_reads_all_ledgers(reader: LedgerReader, sale: Sale, stock: ShardedStock) -> None:
    """Each order once; also after two resets, of which the shards have not heard, or after one that they follow."""
    for number in (0, 1):
        assert Transfers(stock.places, 1).refill({number: 1})
        sell(stock, number, "shop-a")
    first = reader.read()
    assert first is not None
    assert (len(first.new), first.snapshot) == (2, SaleSnapshot(initial=10, stock=8, lucky=2, orders=2))
    sell(stock, 0, "shop-b")
    for initial in (6, 5):
        sale.reset(initial)
    after = reader.read()
    assert after is not None
    assert after.ended is not None
    assert [order.instance for order in after.ended.new] == ["shop-b"]
    assert after.ended.snapshot == SaleSnapshot(initial=10, stock=7, lucky=3, orders=3)
    assert after.snapshot == SaleSnapshot(initial=5, stock=5, lucky=0, orders=0)
    for number in (2, 3):
        assert Transfers(stock.places, 1).refill({number: 1})
    assert reader.read() is not None
    sell(stock, 3, "shop-a")
    sale.reset(4)
    assert Transfers(stock.places, 1).refill({3: 1})
    last = reader.read()
    assert last is not None
    assert last.ended is not None
    assert (len(last.ended.new), last.ended.snapshot) == (1, SaleSnapshot(initial=5, stock=4, lucky=1, orders=1))


def test_the_shop_and_the_rush_add_them_up(app: Flask, settings: Settings) -> None:
    """Orders and items of all slots; `GET /stock/shards` says where they are."""
    browser = app.test_client()
    for buyer in "abcdefg":
        assert buy(app, "etcd-sharded", buyer=buyer)["outcome"] == "sold"
    told, shown = browser.get("/stock").get_json(), browser.get("/stock/shards").get_json()
    assert (told["stock"], told["orders"], told["verdict"]) == (3, 7, "EXACT")
    assert shown["treasury"]["stock"] + sum(shard["stock"] for shard in shown["shards"]) + shown["in_transit"] == 3
    assert sum(shard["orders"] for shard in shown["shards"]) == 7
    with closing(Ledgers(settings.redis_url, settings.sale, timeout=5.0)) as ledgers:
        found = ledgers.read(whole=True)
    assert (found.left, found.orders, {entry.buyer for entry in found.entries}) == (3, 7, {*"abcdefg"})
