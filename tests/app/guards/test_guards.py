"""What each guard does when many buy at once, when it has to wait, and when its lock is lost."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from flask import Flask

from app import services
from app.config.settings import Settings
from app.guards import GUARDS, Promise, redis_lock, redis_watch
from app.sales.inventory import Inventory
from app.sales.purchase import Purchase
from app.sales.sale import Sale
from loadtest.stack.ports import LOOPBACK
from loadtest.stack.proxy import Proxy
from loadtest.stack.servers import Redis
from lock import Mutex
from tests.support.waiting import wait_until

EXACT = [guard.name for guard in GUARDS if guard.promise is not Promise.NONE]
BUYERS = 24
Make = Callable[..., Flask]


def rush(apps: list[Flask], query: str) -> list[dict[str, Any]]:
    """The answers to as many buyers as there are, who all click at once, alternating between the instances."""
    barrier = threading.Barrier(BUYERS)

    def click(number: int) -> dict[str, Any]:
        browser = apps[number % len(apps)].test_client()
        barrier.wait()
        answer: dict[str, Any] = browser.post(f"/stock/reduce?{query}&buyer={number}").get_json()
        return answer

    with ThreadPoolExecutor(BUYERS) as threads:
        return list(threads.map(click, range(BUYERS)))


def in_background(app: Flask, query: str) -> tuple[ThreadPoolExecutor, Future[dict[str, Any]]]:
    """A purchase that goes on in another thread."""
    thread = ThreadPoolExecutor(1)
    return thread, thread.submit(lambda: app.test_client().post(f"/stock/reduce?{query}").get_json())


@pytest.mark.parametrize("guard", EXACT)
def test_exact_guards_sell_exactly(app: Flask, other: Flask, sale: Sale, guard: str) -> None:
    """Two instances, more buyers than items, all at once: each item is sold once, and the ledger agrees."""
    answers = rush([app, other], f"guard={guard}&hold_ms=1")
    assert Counter(answer["outcome"] for answer in answers) == {"sold": 10, "sold_out": BUYERS - 10}
    assert len({answer["order"] for answer in answers if answer["order"]}) == 10
    now = sale.snapshot()
    assert (now.verdict, now.stock, now.orders) == ("EXACT", 0, 10)


def test_no_guard_oversells(app: Flask, other: Flask, sale: Sale) -> None:
    """With nothing around the purchase, buyers who think at the same time all get an item."""
    rush([app, other], "guard=none&hold_ms=50")
    assert sale.snapshot().orders > 10


def test_a_thread_lock_guards_one_instance(app: Flask, sale: Sale) -> None:
    """Within one process the thread lock is exact."""
    rush([app], "guard=thread&hold_ms=1")
    assert sale.snapshot().verdict == "EXACT"


def test_a_thread_lock_does_not_guard_two(app: Flask, other: Flask, sale: Sale) -> None:
    """Two processes, each with a lock of its own, lose updates."""
    rush([app, other], "guard=thread&hold_ms=20")
    assert sale.snapshot().verdict != "EXACT"


def test_an_etcd_timeout_names_the_holder(make: Make, stranger: Mutex) -> None:
    """Who waits too long for the mutex is told who holds it; nothing is sold."""
    app = make(lock_timeout=1.0)
    services.of(app).sessions.session()  # or its making would count
    with stranger.acquire(timeout=20):
        answer = app.test_client().post("/stock/reduce?guard=etcd")
    orders = app.test_client().get("/stock").get_json()["orders"]
    body = answer.get_json()
    assert (answer.status_code, body["outcome"], answer.headers["Retry-After"]) == (503, "lock_timeout", "1")
    assert "stranger" in body["detail"]
    assert "Nothing was written" in body["detail"]
    assert body["waited_ms"] >= 1000
    assert orders == 0


def test_a_thread_timeout(make: Make) -> None:
    """Who waits too long for the thread lock gets lock_timeout while the holder goes on to buy."""
    app = make(lock_timeout=0.1)
    thread, holder = in_background(app, "guard=thread&hold_ms=1000")
    with thread:
        lock = services.of(app).shop.seller_of["thread"]._locks["1"]  # type: ignore[attr-defined]
        wait_until(lock.locked)
        assert app.test_client().post("/stock/reduce?guard=thread").get_json()["outcome"] == "lock_timeout"
    assert holder.result()["outcome"] == "sold"


def test_a_redis_lock_timeout(make: Make, sale: Sale) -> None:
    """Who waits too long for the Redis lock gets lock_timeout."""
    app = make(lock_timeout=0.2)
    sale.client.set(sale.keys.lock, "somebody", px=10_000)
    answer = app.test_client().post("/stock/reduce?guard=redis-lock").get_json()
    assert (answer["outcome"], sale.snapshot().orders) == ("lock_timeout", 0)


def test_a_watch_that_is_always_overtaken_gives_up(make: Make, sale: Sale, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is overtaken again and again until the time is up gets lock_timeout, and has bought nothing."""
    app = make(lock_timeout=0.3)
    monkeypatch.setattr(Purchase, "think", lambda _: sale.client.set(sale.keys.stock, 10))
    answer = app.test_client().post("/stock/reduce?guard=redis-watch").get_json()
    assert (answer["outcome"], sale.snapshot().orders) == ("lock_timeout", 0)


def test_an_overtaken_watch_pauses_in_proportion_to_the_crowd(
    app: Flask, crowd: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of eight that think at the same time one buys; the others pause, the longer the more of them there are."""
    together, pauses = threading.Barrier(8), list[float]()

    def noted(_: float, longest: float) -> float:
        pauses.append(longest)
        return 0.0

    def think(_: Purchase) -> None:
        if not pauses:
            together.wait(20)

    monkeypatch.setattr("random.uniform", noted)
    monkeypatch.setattr(Purchase, "think", think)
    buyers = [crowd.submit(lambda: app.test_client().post("/stock/reduce?guard=redis-watch")) for _ in range(8)]
    assert {buyer.result(20).status_code for buyer in buyers} == {200}
    assert max(pauses) == pytest.approx(8 * redis_watch.PAUSE_S, rel=0.2)
    assert min(pauses) >= redis_watch.PAUSE_S
    assert redis_watch.LONGEST_PAUSE_S < 1


def test_a_watch_is_not_overtaken_by_the_beginning_of_its_own_sale(app: Flask) -> None:
    """Who buys first in a sale that nobody has begun thinks once, not in vain and then again."""
    answer = app.test_client().post("/stock/reduce?guard=redis-watch&hold_ms=500").get_json()
    assert answer["outcome"] == "sold"
    assert answer["waited_ms"] < 500


def has_read(sale: Sale) -> bool:
    """Whether a fenced purchase has read, so that its think time has begun."""
    return str(sale.client.get(sale.keys.fence)) != "0"


def test_a_lock_deleted_while_thinking_is_lost(app: Flask, sale: Sale, stranger: Mutex) -> None:
    """If the holder's key is deleted during its think time, it writes nothing and answers lock_lost."""
    thread, purchase = in_background(app, "guard=etcd&hold_ms=1500")
    with thread:
        wait_until(lambda: has_read(sale))
        (holder,) = stranger.contenders()
        stranger.session.client.delete(holder.key, holder.token)
    body = purchase.result()
    assert (body["outcome"], body["status"], body["token"]) == ("lock_lost", 503, holder.token)
    assert "Nothing was written" in body["detail"]
    assert sale.snapshot().orders == 0


def test_a_lost_session_is_lock_lost_and_replaced(app: Flask, sale: Sale, stranger: Mutex) -> None:
    """If the lease is revoked during the think time, nothing is written; the next purchase has a new session."""
    browser = app.test_client()
    thread, purchase = in_background(app, "guard=etcd&hold_ms=1500")
    with thread:
        wait_until(lambda: has_read(sale))
        (holder,) = stranger.contenders()
        stranger.session.client.revoke(holder.lease_id)
    assert purchase.result()["outcome"] == "lock_lost"
    assert browser.post("/stock/reduce?guard=etcd").get_json()["outcome"] == "sold"
    assert sale.snapshot().orders == 1
    metrics = browser.get("/metrics").text
    lost = [line for line in metrics.splitlines() if line.startswith("flashsale_locks_lost_total") and "1.0" in line]
    assert len(lost) == 1


def test_a_holder_that_was_overtaken_is_fenced_off(app: Flask, sale: Sale, stranger: Mutex) -> None:
    """A holder that still believes in its lock, but was overtaken in Redis, is refused there."""
    thread, purchase = in_background(app, "guard=etcd&hold_ms=500")
    with thread:
        wait_until(lambda: has_read(sale))
        (holder,) = stranger.contenders()
        sale.client.set(sale.keys.fence, f"{holder.token + 1:020d}")
    body = purchase.result()
    assert (body["outcome"], sale.snapshot().orders) == ("lock_lost", 0)
    assert f"{holder.token + 1} was here before" in body["detail"]


def test_a_reset_while_thinking_is_lock_lost(app: Flask, sale: Sale, stranger: Mutex) -> None:
    """A purchase that was thinking while the sale was reset takes nothing from the new one."""
    thread, purchase = in_background(app, "guard=etcd&hold_ms=500")
    with thread:
        wait_until(lambda: has_read(sale))
        sale.reset()
    assert (purchase.result()["outcome"], sale.snapshot().orders) == ("lock_lost", 0)


@pytest.mark.parametrize(
    ("guard", "write"),
    [("etcd", "write"), ("etcd-cohort", "write"), ("etcd-batch", "sell_group")],
)
def test_a_lock_that_is_lost_after_the_write_is_a_sale(
    app: Flask, sale: Sale, stranger: Mutex, monkeypatch: pytest.MonkeyPatch, guard: str, write: str
) -> None:
    """What was written under the lock counts: the answer is sold, once, and the loss shows in the metrics alone."""
    original = getattr(Inventory, write)

    def lose_afterwards(self: Inventory, *args: Any, **options: Any) -> Any:
        written = original(self, *args, **options)
        (holder,) = stranger.contenders()
        stranger.session.client.delete(holder.key, holder.token)
        return written

    monkeypatch.setattr(Inventory, write, lose_afterwards)
    browser, headers = app.test_client(), {"Idempotency-Key": "k"}
    browser.get("/stock")  # so that it knows the sale, and asks once
    first = browser.post(f"/stock/reduce?guard={guard}", headers=headers)
    assert (first.status_code, sale.snapshot().orders) == (200, 1)
    assert f'flashsale_locks_lost_total{{cause="released_late",guard="{guard}"}} 1.0' in browser.get("/metrics").text
    monkeypatch.undo()
    again = browser.post(f"/stock/reduce?guard={guard}", headers=headers)
    assert (again.get_json()["order"], sale.snapshot().orders) == (first.get_json()["order"], 1)


@pytest.mark.parametrize("guard", ["redis-lock", "etcd-unfenced"])
def test_an_unfenced_holder_writes_although_its_lock_is_gone(
    app: Flask, sale: Sale, stranger: Mutex, monkeypatch: pytest.MonkeyPatch, guard: str
) -> None:
    """The known weakness: the write lands, so the truthful answer is sold, and the loss shows in the metrics."""

    def lose_the_lock(_: Purchase) -> None:
        if guard == "redis-lock":
            assert sale.client.delete(sale.keys.lock)
        else:
            (holder,) = stranger.contenders()
            assert stranger.session.client.delete(holder.key, holder.token)

    monkeypatch.setattr(Purchase, "think", lose_the_lock)
    answer = app.test_client().post(f"/stock/reduce?guard={guard}").get_json()
    assert (answer["outcome"], sale.snapshot().orders) == ("sold", 1)
    lost = f'flashsale_locks_lost_total{{cause="released_late",guard="{guard}"}} 1.0'
    assert lost in app.test_client().get("/metrics").text


@pytest.mark.parametrize("fail", [Proxy.refuse, Proxy.stall])
def test_a_redis_lock_that_cannot_be_released_was_still_held(
    make: Make, sale: Sale, redis_server: Redis, monkeypatch: pytest.MonkeyPatch, fail: Callable[[Proxy], None]
) -> None:
    """If Redis goes away between the write and the release, the answer is sold: the lock is left to expire."""
    release = redis_lock._release
    with Proxy(f"{LOOPBACK}:{redis_server.port}") as proxy:

        def cut_off(*held: Any) -> None:
            fail(proxy)
            release(*held)

        monkeypatch.setattr(redis_lock, "_release", cut_off)
        app = make(redis_url=f"redis://{proxy.endpoint}/0")
        answer = app.test_client().post("/stock/reduce?guard=redis-lock")
    assert (answer.status_code, sale.snapshot().orders) == (200, 1)


def test_a_redis_lock_has_no_token(app: Flask) -> None:
    """redis-py's lock gives nothing that a resource could check."""
    assert app.test_client().post("/stock/reduce?guard=redis-lock").get_json()["token"] is None


def test_tokens_rise_in_the_order_of_the_ledger(app: Flask, other: Flask, sale: Sale, stranger: Mutex) -> None:
    """Under the mutex both instances sell in the order of the queue, and the ledger's tokens rise strictly."""
    purchases = []
    with ExitStack() as threads, stranger.acquire(timeout=20):  # the threads end after the hold
        for instance in [app, other] * 4:
            thread, purchase = in_background(instance, "guard=etcd")
            threads.enter_context(thread)
            purchases.append(purchase)
            wait_until(lambda: len(stranger.contenders()) == 1 + len(purchases))
    answers = [purchase.result() for purchase in purchases]
    entries = [json.loads(entry) for entry in sale.client.lrange(sale.keys.orders, 0, -1)]
    tokens = [entry["token"] for entry in entries]
    assert tokens == sorted(set(tokens))
    assert [(entry["order"], entry["token"]) for entry in entries] == [(a["order"], a["token"]) for a in answers]
    assert [entry["instance"] for entry in entries] == ["shop-a", "shop-b"] * 4


def test_the_smallest_pool_is_enough(make: Make, settings: Settings) -> None:
    """With one thread, every guard finds the connections to open the sale, to sell, and to be sold out."""
    for guard in (guard.name for guard in GUARDS):
        app = make(sale=f"{settings.sale}-{guard}", stock=1, threads=1)
        browser = app.test_client()
        statuses = [
            browser.post(f"/stock/reduce?guard={guard}", headers={"Idempotency-Key": key}).status_code for key in "ab"
        ]
        assert statuses == [200, 409]
