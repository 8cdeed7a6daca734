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
from loadtest.results.record import Sample
from loadtest.shop_client.ledger import connect
from loadtest.shop_client.sale import SaleClient
from loadtest.shop_client.shops import SaleError
from loadtest.stack.servers import Redis


@pytest.fixture
def stock(redis_server: Redis) -> Iterator[Any]:
    """A client of an empty Redis."""
    with connect(redis_server.url, 5.0) as client:
        client.flushall()
        yield client


@pytest.fixture
def sale(redis_server: Redis, stock: Any) -> Iterator[SaleClient]:
    """A sale whose shops are closed."""
    hosts = [f"http://127.0.0.1:{free_port()}"]
    with closing(SaleClient(hosts, redis_url=redis_server.url, etcd="", name="t", admin_token="x")) as client:
        yield client


def put(stock: Any, *, left: int, orders: Sequence[Order] = ()) -> None:
    """Have the sale contain this."""
    stock.mset({"sale:{t}:stock": left, "sale:{t}:generation": 1})
    for order in orders:
        stock.rpush("sale:{t}:orders", json.dumps(asdict(order)))


def test_the_ledger_is_read_with_the_counter(sale: SaleClient, stock: Any) -> None:
    """The orders are in the order of writing; a sample has their number alone."""
    orders = [Order(f"order-{number}", f"buyer-{number}", "shop", "etcd", number, 2) for number in range(2)]
    put(stock, left=7, orders=orders)
    assert sale.ledger() == (orders, 7)
    assert sale.sample(1.0) == Sample(1.0, 7, 2, None, None)


def test_no_sale_is_told_from_an_empty_one(sale: SaleClient, stock: Any) -> None:
    """A Redis without this sale is an error and not an empty ledger."""
    with pytest.raises(SaleError, match="There is no such sale in Redis"):
        sale.ledger()
    assert sale.sample(1.0) == Sample(1.0, None, 0, None, None)
    put(stock, left=0)
    assert sale.ledger() == ([], 0)


def test_a_redis_that_does_not_answer_is_an_error() -> None:
    """One line says what to do; a glance tells nothing."""
    with closing(SaleClient([], redis_url=f"redis://127.0.0.1:{free_port()}", etcd="", name="t")) as sale:
        with pytest.raises(SaleError, match=r"The ledger cannot be read: .* See that Redis runs"):
            sale.ledger()
        assert sale.sample(1.0) == Sample(1.0, None, None, None, None)


def test_versions_without_servers_are_those_of_the_packages(sale: SaleClient) -> None:
    """What cannot be asked is left out, and nothing fails."""
    found = sale.versions()
    assert {"python", "locust", "flask"} <= found.keys()
    assert "etcd" not in found
