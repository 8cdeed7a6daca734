"""What each guard does in a crowd, when it has to wait, and when its lock is lost."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask

from app import services
from app.contract.outcomes import Promise
from app.guards import guards, redis_lock
from app.sales.purchase import Purchase, Section
from app.sales.sale import Sale
from app.sales.stock import Stock
from loadtest.stack.servers import Redis
from lock import Mutex
from lock.core import reconciler
from tests.app.guards.test_outages import told
from tests.support.lock import delete
from tests.support.shops import WAIT_S, at_once, buy

EXACT = [guard.name for guard in guards().values() if guard.promise is not Promise.NONE]
UNDER_ETCD = ["etcd", "etcd-checked", "etcd-unfenced", "etcd-cohort", "etcd-batch"]
IN_TWO_STEPS = ["etcd", "etcd-cohort"]  # a read and a write, so that a reset may come between
LOSSES = [
    *itertools.product([*IN_TWO_STEPS, "etcd-batch"], ["key deleted", "lease revoked", "overtaken in Redis"]),
    *itertools.product(UNDER_ETCD, ["reset here", "reset elsewhere"]),
]
Make = Callable[..., Flask]


@pytest.mark.parametrize(
    ("guard", "instances", "exact"), [("none", 2, False), ("thread", 2, False), ("thread", 1, True)]
)
def test_without_a_shared_lock_two_instances_lose_updates(
    app: Flask, other: Flask, sale: Sale, guard: str, instances: int, exact: bool
) -> None:
    """With nothing around the purchase, or a lock in each process; within one process the thread lock is exact."""
    shops = [app, other][:instances]
    at_once(24, lambda number: buy(shops[number % instances], guard, hold_ms=20, buyer=number))
    assert (sale.snapshot().judge().sentence == "EXACT") == exact


@pytest.mark.parametrize("guard", [*UNDER_ETCD, "thread", "redis-lock", "redis-fenced"])
def test_locks_of_different_items_do_not_wait_for_each_other(
    make: Make, crowd: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, guard: str
) -> None:
    """While the locks of items 1 and 3 are held, item 2 is bought; so the names do not nest either."""
    app, inside, go_on, enter = make(items=3), threading.Semaphore(0), threading.Event(), Purchase.critical_section

    def enter_and_stay(purchase: Purchase, hold: Any = None, **token: Any) -> Section:
        section = enter(purchase, hold, **token)
        if purchase.item != "2":
            inside.release()
            go_on.wait(WAIT_S)
        return section

    monkeypatch.setattr(Purchase, "critical_section", enter_and_stay)
    slow = [crowd.submit(buy, app, guard, item=item) for item in (1, 3)]
    assert inside.acquire(timeout=WAIT_S)
    assert inside.acquire(timeout=WAIT_S)
    assert buy(app, guard, item=2)["status"] == 200
    go_on.set()
    assert [purchase.result(WAIT_S)["status"] for purchase in slow] == [200, 200]


@pytest.mark.parametrize("guard", [*UNDER_ETCD, "thread", "redis-lock", "redis-fenced", "redis-watch"])
def test_a_purchase_that_waits_too_long_times_out(
    make: Make, sale: Sale, stranger: Mutex, monkeypatch: pytest.MonkeyPatch, guard: str
) -> None:
    """While every lock is held, and every read overtaken, nothing is sold; the answer names the holder in etcd."""
    app = make(lock_timeout=1.0)
    services.of(app).sessions.session()  # or its making would count
    thread_lock = services.of(app).guards["thread"]._locks["1"]  # type: ignore[attr-defined]
    sale.client.set(sale.keys.lock, "another", px=20_000)
    monkeypatch.setattr(Section, "think", lambda _: sale.client.set(sale.keys.stock, 10))
    with stranger.acquire(timeout=WAIT_S), thread_lock:
        answer = buy(app, guard)
    assert answer["status"] == 503
    assert answer["outcome"] == "lock_timeout"
    assert answer["retry_after"] == "1"
    assert "Nothing was written" in answer["detail"]
    if guard in UNDER_ETCD:
        assert "stranger" in answer["detail"]
        assert 1000 <= answer["waited_ms"] < 16 * 1000
    assert sale.snapshot().orders == 0


@pytest.mark.parametrize(("guard", "loss"), LOSSES)
def test_a_lost_lock_writes_nothing(
    app: Flask, sale: Sale, stranger: Mutex, monkeypatch: pytest.MonkeyPatch, guard: str, loss: str
) -> None:
    """A lock lost before the write is lock_lost, and one loss in the metrics; the next purchase is sold."""
    monkeypatch.setattr(reconciler, "_PERIOD_S", 0.1)  # between two looks of a session for what was deleted by hand
    kind, step = (Section, "think") if guard in IN_TWO_STEPS else (Purchase, "critical_section")
    details, original = list[str](), getattr(kind, step)
    if loss.startswith("reset"):
        buy(app, "none")  # so that the process knows the sale

    def lose_before(*arguments: Any) -> Any:
        monkeypatch.undo()
        (holder,) = stranger.contenders()
        hold = arguments[0].hold if kind is Section else arguments[1]
        details.append("Nothing was written")
        if loss == "key deleted":
            delete(stranger.session.client, holder.key)
            assert hold.lost.wait(WAIT_S)
        elif loss == "lease revoked":
            stranger.session.client.revoke(holder.lease_id)
            assert hold.lost.wait(WAIT_S)
        elif loss == "reset here":
            app.test_client().post("/stock/reset")
        elif loss == "reset elsewhere":
            sale.reset()
        else:
            sale.client.set(sale.keys.fence, f"{holder.token + 1:020d}")
            details.append(f"{holder.token + 1} was here before")
        return original(*arguments)

    monkeypatch.setattr(kind, step, lose_before)
    answer = buy(app, guard)
    assert answer["status"] == 503
    assert answer["outcome"] == "lock_lost"
    assert details
    assert all(detail in answer["detail"] for detail in details)
    assert "make a new" not in answer["detail"]  # advice for programmers
    assert sale.snapshot().orders == 0
    metrics = app.test_client().get("/metrics").text.splitlines()
    (lost,) = (line for line in metrics if "locks_lost_total{" in line and not line.endswith(" 0.0"))
    assert f'guard="{guard}"' in lost
    assert ('cause="sale_reset"' in lost) is loss.startswith("reset")
    assert lost.endswith(" 1.0")
    assert buy(app, guard)["outcome"] == "sold"


@pytest.mark.parametrize(
    ("guard", "place", "name"),
    [
        ("etcd", Stock, "write"),
        ("etcd-cohort", Stock, "write"),
        ("etcd-batch", Stock, "sell_group"),
        ("etcd-checked", Section, "ensure"),
        ("etcd-unfenced", Section, "think"),
        ("redis-lock", Section, "think"),
        ("redis-fenced", Stock, "write"),
    ],
)
def test_what_is_written_without_the_lock_is_a_sale(
    app: Flask, sale: Sale, stranger: Mutex, monkeypatch: pytest.MonkeyPatch, guard: str, place: type, name: str
) -> None:
    """A lock lost after the write, or before an unfenced one, is a loss in the metrics, and the item is sold."""
    original = getattr(place, name)

    def lose_afterwards(*args: Any, **options: Any) -> Any:
        done = original(*args, **options)
        for holder in stranger.contenders():
            delete(stranger.session.client, holder.key)
        assert sale.client.delete(sale.keys.lock) == guard.startswith("redis-")
        return done

    buy(app, "none", key="first")  # now the process knows the sale
    monkeypatch.setattr(place, name, lose_afterwards)
    answer = buy(app, guard, key="k")
    assert answer["status"] == 200
    assert sale.snapshot().orders == 2
    lost = f'flashsale_locks_lost_total{{cause="released_late",guard="{guard}"}} 1.0'
    assert lost in app.test_client().get("/metrics").text
    monkeypatch.undo()
    again = buy(app, guard, key="k")
    assert again["order"] == answer["order"]
    assert sale.snapshot().orders == 2


def test_a_late_holder_of_a_lock_in_redis_is_fenced_off(
    app: Flask, other: Flask, sale: Sale, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By tokens that Redis numbers; they are compared with none of etcd's, and etcd is not taken for lost."""

    def expire(_: Section) -> None:
        monkeypatch.undo()
        sale.client.delete(sale.keys.lock)
        assert buy(other, "redis-fenced")["outcome"] == "sold"

    sale.client.set(sale.keys.tokens, 2**52)
    monkeypatch.setattr(Section, "think", expire)
    answer = buy(app, "redis-fenced")
    assert answer["outcome"] == "lock_lost"
    assert answer["token"] == 2**52 + 1
    assert sale.snapshot().orders == 1
    assert f"{2**52 + 2} was here before. Nothing was written" in answer["detail"]
    sale.check()
    assert [buy(app, guard)["outcome"] for guard in ("etcd", "redis-fenced")] == ["sold", "sold"]


@pytest.mark.parametrize("fail", [Redis.stop, told("REPLICAOF 127.0.0.1 1")])
def test_a_redis_lock_that_cannot_be_released_was_still_held(
    make: Make, fresh_redis: Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fail: Any
) -> None:
    """If Redis fails between the write and the release, the answer is sold: the lock is left to expire."""
    release = redis_lock._release
    monkeypatch.setattr(redis_lock, "_release", lambda *held: (fail(fresh_redis), release(*held)))
    answer = buy(make(redis_url=fresh_redis.url), "redis-lock")
    assert answer["outcome"] == "sold"
    assert "the Redis lock is left to expire: " in caplog.text
