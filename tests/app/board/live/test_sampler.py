"""What the board sees: the sale and the queue; and that it goes on while a server is unavailable."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask

from app.sales.sale import Sale
from loadtest.stack.servers import Etcd, Redis
from tests.app.board.conftest import Watch
from tests.support.shops import buy


def buy_each(app: Flask, guard: str, *buyers: str) -> None:
    assert [buy(app, guard, buyer=buyer)["status"] for buyer in buyers] == [200] * len(buyers)


@pytest.mark.usefixtures("sale")
def test_a_purchase_is_seen_with_all_that_is_known_of_it(app: Flask, watch: Watch) -> None:
    """Counters and critical sections are shown; the run with its sections can be asked for by its guard."""
    watcher = watch()
    buy_each(app, "etcd", "ada", "<b>bob</b>")
    now = watcher.wait(lambda now: [bool(each["left_ms"]) for each in now["sections"]] == [True] * 2)
    now = watcher.wait_orders(2)
    assert now["sale"]["verdict"] == "EXACT"
    first, second = now["sections"]
    assert (first["buyer"], second["buyer"], first["instance"], first["item"]) == ("ada", "<b>bob</b>", "shop-a", "1")
    assert first["token"] < second["token"]
    assert 0 <= first["entered_ms"] < first["left_ms"] < second["entered_ms"] < second["left_ms"] < now["now_ms"]
    assert now["unavailable"] == {"redis": None, "etcd": None}
    assert watcher.sampler.last_run("none") is None
    kept = watcher.sampler.last_run("etcd")
    assert kept is not None
    assert kept["sale"] == now["sale"]
    assert kept["orders"] == [each["order"] for each in kept["sections"]]
    assert [{name: each[name] for name in now["sections"][0]} for each in kept["sections"]] == now["sections"]
    assert kept["source"]["file"] == "app/guards/etcd.py"
    points = {point["name"]: point["at_ms"] for point in kept["sections"][0]["points"]}
    assert first["entered_ms"] < points["read"] < points["write"] < points["left"] <= first["left_ms"]
    assert [(each["stock_read"], each["stock"]) for each in kept["sections"]] == [(10, 9), (9, 8)]


def test_a_lost_sale_is_said_to_be_lost(app: Flask, sale: Sale, watch: Watch) -> None:
    """A Redis that lost the sale is not shown as a sale that never began; a reset ends that."""
    watcher = watch()
    now = watcher.wait(lambda now: now["sale"])
    assert (now["sale"]["orders"], now["sale"]["verdict"], now["ended"]) == (0, "EXACT", [])
    buy_each(app, "etcd", "ada")
    watcher.wait_orders(1)
    sale.client.delete(*vars(sale.keys).values())
    watcher.wait(lambda now: now["unavailable"]["redis"] == "Redis has lost this sale: reset it")
    sale.reset(5)
    watcher.wait(lambda now: now["unavailable"]["redis"] is None and now["sale"]["stock"] == 5)


def test_the_last_run_of_each_guard_is_kept(app: Flask, sale: Sale, watch: Watch) -> None:
    """A run ends with a reset, whole, even if its last orders came just before; the next one stands beside it."""
    watcher = watch()
    buy_each(app, "etcd", "ada")
    watcher.wait_orders(1)
    buy_each(app, "etcd", "bob", "eve")
    sale.reset(5)
    now = watcher.wait(lambda now: now["ended"])
    (ended,) = now["ended"]
    assert (ended["guard"], ended["orders"], ended["stock"], ended["verdict"]) == ("etcd", 3, 7, "EXACT")
    assert ended["by_instance"] == {"shop-a": 3}
    assert (now["sale"]["initial"], now["sale"]["orders"], now["sections"]) == (5, 0, [])


def test_a_frozen_server_is_unavailable_until_it_answers(
    make: Callable[..., Flask], fresh_redis: Redis, fresh_etcd: Etcd, watch: Watch
) -> None:
    """Without Redis the queue is still shown, without etcd the sale; when they answer, everything is."""
    servers = {"redis_url": fresh_redis.url, "etcd_endpoints": fresh_etcd.endpoint}
    app, watcher = make(**servers), watch(**servers)
    buy_each(app, "redis-lua", "ada")
    watcher.wait(lambda now: now["queue"])
    fresh_redis.pause()
    now = watcher.wait(lambda now: now["unavailable"]["redis"])
    assert now["unavailable"]["etcd"] is None
    assert now["queue"] is not None
    fresh_redis.resume()
    watcher.wait(lambda now: now["unavailable"]["redis"] is None)
    fresh_etcd.pause()
    now = watcher.wait(lambda now: now["unavailable"]["etcd"])
    assert (now["queue"], now["unavailable"]["redis"]) == (None, None)
    buy_each(app, "redis-lua", "bob")
    watcher.wait_orders(2)
    fresh_etcd.resume()
    watcher.wait(lambda now: now["unavailable"]["etcd"] is None)
