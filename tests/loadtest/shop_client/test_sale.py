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


def put(stock: Any, prefix: str, *, left: int, orders: Sequence[Order] = (), **counters: int) -> None:
    """Have a place contain this."""
    stock.mset({prefix + "stock": left, prefix + "generation": 1} | {prefix + key: n for key, n in counters.items()})
    for order in orders:
        stock.rpush(prefix + "orders", json.dumps(asdict(order)))


def test_all_ledgers_are_read(sale: SaleClient, stock: Any) -> None:
    """Those of all places that the sale has noted, each in the order of writing; what is on its way is left."""
    orders = [Order(f"order-{number}", f"buyer-{number}", "shop", "etcd", number, 2) for number in range(4)]
    put(stock, "sale:{t}:", left=7, orders=orders[:2])
    for name, generation, items in (("a", 1, {"sent": 6}), ("b", 1, {"arrived": 4}), ("old", 0, {"sent": 50})):
        put(stock, f"sale:{{t}}:{name}:", left=8, orders=orders[2:3] if name == "a" else (), **items)
        stock.hset("sale:{t}:places", f"sale:{{t}}:{name}:", generation)
    ledgers = ["sale:{t}:orders", "sale:{t}:orders", "sale:{t}:a:orders"]
    entries = [Entry(**vars(order), ledger=ledger) for order, ledger in zip(orders[:3], ledgers, strict=True)]
    assert sale.ledger() == (entries, 7 + 8 + 8 + 6 - 4)
    assert sale.sample(1.0) == Sample(1.0, 25, 3, None, None)


def test_a_place_that_has_lost_its_data_gives_no_ledger(sale: SaleClient, stock: Any) -> None:
    """What was sold there is not known, so nothing can be judged."""
    put(stock, "sale:{t}:", left=7)
    stock.hset("sale:{t}:places", "sale:{t}:a:", 1)
    with pytest.raises(SaleError, match="a part of the sale has lost its data: reset it"):
        sale.ledger()


def test_no_sale_is_told_from_an_empty_one(sale: SaleClient, stock: Any) -> None:
    """A Redis without this sale is an error and not an empty ledger."""
    with pytest.raises(SaleError, match="There is no such sale in Redis"):
        sale.ledger()
    assert sale.sample(1.0) == Sample(1.0, None, 0, None, None)
    put(stock, "sale:{t}:", left=0)
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


def test_versions_leave_out_a_package_that_is_not_installed(sale: SaleClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """README's one line installs what the rush needs, not gunicorn."""
    monkeypatch.setattr("loadtest.shop_client.sale.PACKAGES", ("locust", "no-such-package"))
    found = sale.versions()
    assert {"python", "locust"} <= found.keys()
    assert "no-such-package" not in found
