"""The sale as the rush sees it."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from loadtest.results.verdict import Order
from loadtest.stack.ports import free_port
from loadtest.stack.servers import Redis
from loadtest.target.sale import Sale, SaleSnapshot
from loadtest.target.shops import SaleError


@pytest.fixture
def sale(redis_server: Redis) -> Sale:
    """A sale whose shops are closed, with an empty Redis."""
    client = Sale([f"http://127.0.0.1:{free_port()}"], redis_url=redis_server.url, etcd="", name="t", admin_token="x")
    client._redis.flushdb()
    return client


def test_the_ledger_is_read_in_the_order_of_writing(sale: Sale) -> None:
    """Orders as they were appended, and the counter."""
    written = [Order("a", "x", "shop", "etcd", 1, 2), Order("b", "y", "shop", "etcd", 2, 3)]
    sale._redis.rpush("sale:{t}:orders", *(json.dumps(asdict(order)) for order in written))
    sale._redis.set("sale:{t}:stock", 7)
    orders, left = sale.ledger()
    assert orders == written
    assert left == 7


def test_no_sale_is_told_from_an_empty_one(sale: Sale) -> None:
    """A Redis without this sale is an error and not an empty ledger."""
    with pytest.raises(SaleError, match="There is no such sale in Redis"):
        sale.ledger()
    sale._redis.set("sale:{t}:stock", 0)
    assert sale.ledger() == ([], 0)


def test_a_glance_tells_what_is_in_reach(sale: Sale) -> None:
    """What neither Redis nor etcd tells is None, and nothing is raised."""
    assert sale.snapshot() == SaleSnapshot(None, 0, None)
    sale._redis.set("sale:{t}:stock", 7)
    sale._redis.rpush("sale:{t}:orders", "a", "b")
    assert sale.snapshot() == SaleSnapshot(7, 2, None)


def test_closed_shops_are_named(sale: Sale) -> None:
    """The error lists the addresses that were tried."""
    with pytest.raises(SaleError, match=r"No shop answers at http://127\.0\.0\.1:\d+: start it with make up"):
        sale.promises()


def test_versions_without_servers_are_those_of_the_packages(sale: Sale) -> None:
    """What cannot be asked is left out, and nothing fails."""
    found = sale.versions()
    assert {"python", "locust", "flask"} <= found.keys()
    assert "etcd" not in found
