"""The sale as the rush sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

import pytest

from app.contract.orders import Order
from loadtest.ports import free_port
from loadtest.results.entry import Entry
from loadtest.results.record import Sample
from loadtest.shop_client.ledgers import connect
from loadtest.shop_client.sale import Sale
from loadtest.shop_client.shops import SaleError
from loadtest.stack.servers import Redis


@pytest.fixture
def stock(redis_server: Redis) -> Iterator[Any]:
    """A client of an empty Redis."""
    with connect(redis_server.url, 5.0) as client:
        client.flushall()
        yield client


@pytest.fixture
def sale(redis_server: Redis, stock: Any) -> Iterator[Sale]:
    """A sale whose shops are closed."""
    hosts = [f"http://127.0.0.1:{free_port()}"]
    with closing(Sale(hosts, redis_url=redis_server.url, etcd="", name="t", admin_token="x")) as client:
        yield client


def put(stock: Any, slot: str, *, left: int, orders: Sequence[Order] = (), **transfers: str) -> None:
    """Have a slot contain this."""
    prefix = f"sale:{{{slot}}}:"
    stock.set(prefix + "stock", left)
    stock.set(prefix + "generation", 1)
    for order in orders:
        stock.rpush(prefix + "orders", json.dumps(asdict(order)))
    if transfers:
        stock.hset(prefix + "transfers", mapping=transfers)


def test_all_ledgers_are_read(sale: Sale, stock: Any) -> None:
    """Orders of treasury and shards, each with its ledger; what is on its way is left, and counts once."""
    orders = [Order(f"order-{number}", f"buyer-{number}", "shop", "etcd", number, 2) for number in range(4)]
    put(stock, "t", left=7, orders=orders[:2], arrived="0 10", pending="1 5")
    put(stock, "t/0", left=8, orders=orders[2:3], other="3 1")
    put(stock, "t/3", left=1, orders=orders[3:])
    stock.sadd("sale:{t/0}:credited", "arrived")
    ledgers = [f"sale:{{{slot}}}:orders" for slot in ("t", "t", "t/0", "t/3")]
    entries = [Entry(**vars(order), ledger=ledger) for order, ledger in zip(orders, ledgers, strict=True)]
    assert sale.ledger() == (entries, 7 + 8 + 1 + 5 + 1)
    assert sale.sample(1.0) == Sample(1.0, 22, 4, None, None)


def test_no_sale_is_told_from_an_empty_one(sale: Sale, stock: Any) -> None:
    """A Redis without this sale is an error and not an empty ledger."""
    with pytest.raises(SaleError, match="There is no such sale in Redis"):
        sale.ledger()
    assert sale.sample(1.0) == Sample(1.0, None, 0, None, None)
    put(stock, "t", left=0)
    assert sale.ledger() == ([], 0)


def test_a_redis_that_does_not_answer_is_an_error() -> None:
    """Of a cluster as of a single Redis: one line that says what to do; a glance tells nothing."""
    for scheme in ("redis", "redis+cluster"):
        url = f"{scheme}://127.0.0.1:{free_port()}"
        with closing(Sale([], redis_url=url, etcd="", name="t")) as sale:
            with pytest.raises(SaleError, match=r"The ledger cannot be read: .* See that Redis runs"):
                sale.ledger()
            assert sale.sample(1.0) == Sample(1.0, None, None, None, None)


def test_versions_without_servers_are_those_of_the_packages(sale: Sale) -> None:
    """What cannot be asked is left out, and nothing fails."""
    found = sale.versions()
    assert {"python", "locust", "flask"} <= found.keys()
    assert "etcd" not in found
