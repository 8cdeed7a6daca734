"""What the board sees: the sale, the queue, the instances; and that it goes on when one of them is away."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.board.live import sampler
from app.board.settings import BoardSettings
from app.board.sources.queue import Queue, read_queue
from app.sales.sale import Sale
from loadtest.results.record import Record
from loadtest.stack.ports import free_port
from loadtest.stack.servers import Etcd, Redis
from lock import Mutex, Session, connect
from tests.app.board.conftest import Watch


def buy(shop: FlaskClient, guard: str, *buyers: str) -> None:
    """One item for each."""
    for buyer in buyers:
        assert shop.post(f"/stock/reduce?guard={guard}", json={"buyer": buyer}).status_code == 200


def test_a_purchase_is_seen_with_all_that_is_known_of_it(
    board_settings: BoardSettings, shop: FlaskClient, watch: Watch
) -> None:
    """The sale's counters, the order, and its critical section, which carry the same order id."""
    watcher = watch(board_settings)
    buy(shop, "etcd", "ada", "<b>bob</b>")
    now = watcher.wait(
        lambda now: len(now["orders"]) == 2 and [bool(each["left_ms"]) for each in now["sections"]] == [True] * 2
    )
    assert now["sale"]["orders"] == 2
    assert now["sale"]["verdict"] == "EXACT"
    assert [order["buyer"] for order in now["orders"]] == ["ada", "<b>bob</b>"]
    assert [each["order"] for each in now["sections"]] == [order["order"] for order in now["orders"]]
    first, second = now["sections"]
    assert first["entered_ms"] < first["read_ms"] < first["commit_ms"] < first["left_ms"] < second["entered_ms"]
    assert 0 < second["left_ms"] < now["now_ms"]
    assert now["unavailable"] == {"redis": None, "etcd": None}


def test_a_lost_sale_is_said_to_be_lost(
    board_settings: BoardSettings, shop: FlaskClient, sale: Sale, watch: Watch
) -> None:
    """A Redis that lost what was opened is not shown as a sale that never began; a reset ends that."""
    watcher = watch(board_settings)
    buy(shop, "etcd", "ada")
    watcher.wait_orders(1)
    sale.client.delete(*vars(sale.keys).values())
    watcher.wait(lambda now: now["unavailable"]["redis"] == "Redis has lost this sale: reset it")
    sale.reset(5)
    watcher.wait(lambda now: now["unavailable"]["redis"] is None and now["sale"]["stock"] == 5)


def test_viewers_are_told_of_each_thing_once(board_settings: BoardSettings, shop: FlaskClient, watch: Watch) -> None:
    """The events add up to what is known: no order is missing, and none is told twice."""
    watcher = watch(board_settings)
    buy(shop, "redis-lua", "ada")
    watcher.wait_orders(1)
    stream = watcher.sampler.stream.view()
    assert next(stream).startswith(b"retry")
    told = json.loads(next(stream).partition(b"data: ")[2])["orders"]
    buy(shop, "redis-lua", "bob", "eve")
    watcher.wait_orders(3)
    while len(told) < 3:
        for line in next(stream).split(b"\n"):
            told += json.loads(line[6:])["orders"] if line.startswith(b"data: ") else []
    assert [order["buyer"] for order in told] == ["ada", "bob", "eve"]


def test_the_last_run_of_each_guard_is_kept(
    board_settings: BoardSettings, shop: FlaskClient, sale: Sale, watch: Watch
) -> None:
    """A run ends with a reset, whole, even if its last orders came just before; the next one stands beside it."""
    watcher = watch(board_settings)
    buy(shop, "etcd", "ada")
    watcher.wait_orders(1)
    buy(shop, "etcd", "bob", "eve")
    sale.reset(5)
    now = watcher.wait(lambda now: now["ended"])
    (ended,) = now["ended"]
    assert (ended["guard"], ended["orders"], ended["stock"], ended["verdict"]) == ("etcd", 3, 7, "EXACT")
    assert ended["by_instance"] == {"shop-a": 3}
    assert (now["sale"]["initial"], now["orders"], now["sections"]) == (5, [], [])


def test_a_run_is_a_record_like_any_other(
    board_settings: BoardSettings, sale: Sale, shop: FlaskClient, watch: Watch, tmp_path: Path
) -> None:
    """What the board keeps of a run can be read by the programs that read records."""
    watcher = watch(board_settings)
    buy(shop, "etcd", "ada", "bob")
    watcher.wait(lambda now: len(now["orders"]) == 2)
    watcher.wait(lambda now: len(now["sections"]) == 2 and all(each["left_ms"] for each in now["sections"]))
    kept = watcher.sampler.record("etcd")
    assert watcher.sampler.record("none") is None
    path = tmp_path / "etcd.json"
    path.write_text(json.dumps(kept))
    record = Record.read(path)
    assert (record.guard, record.promise, record.stock, len(record.ledger), len(record.sections)) == (
        "etcd",
        "exact",
        10,
        2,
        2,
    )
    for section, order in zip(record.sections, record.ledger, strict=True):
        assert section.left_ms is not None
        assert 0 <= section.entered_ms <= order.at_ms + 1 <= section.left_ms + 2  # the ledger counts whole milliseconds


def test_the_queue_is_seen_in_order(board_settings: BoardSettings, watch: Watch) -> None:
    """Holder with token and lease, waiters behind, and the board itself takes no part."""
    shop = board_settings.shop
    watcher = watch(board_settings)
    with connect(shop.etcd_endpoints) as client, Session(client, ttl=7, name="shop-b") as session:
        with Mutex(session, f"flash-sale/{shop.sale}").acquire(timeout=5) as hold:
            queue = watcher.wait(lambda now: now["queue"] and now["queue"]["holder"])["queue"]
            assert (queue["holder"]["instance"], queue["holder"]["token"]) == ("shop-b", hold.token)
            assert 0 < queue["holder"]["ttl_s"] <= queue["holder"]["granted_s"] == 7
            assert queue["waiters"] == []
        watcher.wait(lambda now: now["queue"]["holder"] is None)


def test_etcd_away(board_settings: BoardSettings, shop: FlaskClient, watch: Watch) -> None:
    """Without etcd the queue is not known, the page says so, and the sale goes on being shown."""
    away = replace(board_settings.shop, etcd_endpoints=f"127.0.0.1:{free_port()}")
    watcher = watch(replace(board_settings, shop=away))
    now = watcher.wait(lambda now: now["unavailable"]["etcd"])
    assert (now["queue"], now["unavailable"]["redis"]) == (None, None)
    buy(shop, "redis-lua", "ada")
    watcher.wait_orders(1)


def test_redis_away_and_back(board_settings: BoardSettings, tmp_path: Path, watch: Watch) -> None:
    """Without Redis the queue is still shown; when it is back, so is the sale."""
    with Redis(tmp_path) as own:
        watcher = watch(replace(board_settings, shop=replace(board_settings.shop, redis_url=own.url)))
        watcher.wait(lambda now: now["queue"])
        own.pause()
        now = watcher.wait(lambda now: now["unavailable"]["redis"])
        assert now["unavailable"]["etcd"] is None
        assert now["queue"] is not None
        own.resume()
        watcher.wait(lambda now: now["unavailable"]["redis"] is None)


def test_etcd_frozen(board_settings: BoardSettings, fresh_etcd: Etcd, watch: Watch) -> None:
    """An etcd that takes questions and does not answer is away, until it answers again."""
    shop_settings = replace(board_settings.shop, etcd_endpoints=fresh_etcd.endpoint)
    watcher = watch(replace(board_settings, shop=shop_settings))
    watcher.wait(lambda now: now["queue"])
    fresh_etcd.pause()
    watcher.wait(lambda now: now["unavailable"]["etcd"])
    fresh_etcd.resume()
    watcher.wait(lambda now: now["unavailable"]["etcd"] is None)


def test_a_slow_etcd_holds_nobody_up(
    board_settings: BoardSettings, shop: FlaskClient, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the board waits for etcd's answer, however long, orders are seen as they come."""
    arrived = threading.Event()

    def late(*question: Any) -> Queue:
        answer = read_queue(*question)
        arrived.wait(60)
        return answer

    monkeypatch.setattr(sampler, "read_queue", late)
    watcher = watch(board_settings)
    buy(shop, "redis-lua", "ada")
    now = watcher.wait_orders(1)
    assert now["queue"] is None
    arrived.set()
    watcher.wait(lambda now: now["queue"])


def test_a_run_without_orders_has_a_record(board_settings: BoardSettings, sale: Sale, watch: Watch) -> None:
    """A sale that was just opened is no error anywhere."""
    watcher = watch(board_settings)
    now = watcher.wait(lambda now: now["sale"])
    assert (now["sale"]["orders"], now["sale"]["verdict"], now["ended"]) == (0, "EXACT", [])
