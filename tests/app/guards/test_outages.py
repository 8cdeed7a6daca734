"""etcd or Redis goes away and comes back: no sale without them, and no restart of the shop."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from app import services
from loadtest.stack.servers import Etcd, Redis
from tests.support.shops import at_once, buy
from tests.support.waiting import wait_until

DEADLINE_S = 10.0  # a call of two seconds here and there, on a machine that is busy with other things


@pytest.fixture
def app(make: Callable[..., Flask], fresh_etcd: Etcd, fresh_redis: Redis) -> Flask:
    """A shop on servers of its own that has sold one item under the mutex."""
    app = make(etcd_endpoints=fresh_etcd.endpoint, redis_url=fresh_redis.url, lease_ttl=2, lock_timeout=1.0)
    assert sells(app, "etcd")
    return app


def refused(app: Flask, guard: str) -> bool:
    """Whether a purchase is answered 503 before its deadline, not in doubt."""
    began = time.monotonic()
    answer = buy(app, guard)
    assert time.monotonic() - began < DEADLINE_S
    return (answer["status"], answer["outcome"], answer["in_doubt"]) == (503, "unavailable", False) and bool(
        answer["retry_after"]
    )


def sells(app: Flask, guard: str) -> bool:
    """Whether a purchase succeeds."""
    return bool(buy(app, guard)["status"] == 200)


@pytest.mark.parametrize("guard", ["etcd", "etcd-cohort", "etcd-batch"])
def test_an_outage_is_not_taken_for_a_queue(make: Callable[..., Flask], fresh_etcd: Etcd, guard: str) -> None:
    """All that wait while etcd is frozen are told that it does not answer, not that others were first."""
    app = make(etcd_endpoints=fresh_etcd.endpoint, lock_timeout=1.0)
    services.of(app).sessions.session()
    fresh_etcd.pause()
    assert {answer["outcome"] for answer in at_once(8, lambda _: buy(app, guard))} == {"unavailable"}
    fresh_etcd.resume()


@pytest.mark.parametrize("away", ["stop", "pause"])
def test_etcd_away_longer_than_the_lease(app: Flask, fresh_etcd: Etcd, away: str) -> None:
    """While etcd is stopped or frozen nothing is sold under the mutex; once it is back, sales go on."""
    browser = app.test_client()
    session = services.of(app).sessions.session()
    getattr(fresh_etcd, away)()
    assert refused(app, "etcd")
    wait_until(session.lost.is_set)
    assert refused(app, "etcd")
    assert refused(app, "etcd-unfenced")
    assert browser.get("/stock").get_json()["orders"] == 1
    fresh_etcd.start() if away == "stop" else fresh_etcd.resume()
    wait_until(lambda: sells(app, "etcd"), timeout=20)
    assert browser.get("/stock").get_json()["verdict"] == "EXACT"


def test_an_etcd_that_was_wiped_sells_after_a_reset(app: Flask, fresh_etcd: Etcd, tmp_path: Path) -> None:
    """An etcd that lost its data counts from one: fenced off with advice, until the sale is reset."""
    browser = app.test_client()
    for _ in range(5):
        assert sells(app, "etcd")
    fresh_etcd.kill()
    data = tmp_path / "etcd"
    data.rename(tmp_path / "lost")
    fresh_etcd.start()

    def fenced_off() -> bool:
        body = buy(app)
        return bool(body["outcome"] == "lock_lost" and "reset the sale" in body["detail"])

    wait_until(fenced_off, timeout=20)
    browser.post("/stock/reset")
    assert sells(app, "etcd")


@pytest.mark.parametrize("guard", ["none", "etcd", "redis-lock", "redis-watch", "redis-lua"])
def test_redis_stopped(app: Flask, fresh_redis: Redis, guard: str) -> None:
    """While Redis is stopped nothing is sold, and nothing is in doubt; once it is back, sales go on."""
    browser = app.test_client()
    fresh_redis.stop()
    assert refused(app, guard)
    fresh_redis.start()
    assert sells(app, guard)
    assert browser.get("/stock").get_json()["orders"] == 2


def test_redis_frozen(app: Flask, fresh_redis: Redis) -> None:
    """A frozen Redis may do what it was sent as soon as it thaws: a write is in doubt, and the same key buys once.

    What only reads is refused at its deadline.
    """
    assert sells(app, "redis-lua")  # over the connection that is used next
    fresh_redis.pause()
    bought = buy(app, "redis-lua", key="k")
    assert refused(app, "etcd")
    fresh_redis.resume()
    assert (bought["outcome"], bought["in_doubt"]) == ("unavailable", True)
    wait_until(lambda: buy(app, "redis-lua", key="k")["status"] == 200)
    wait_until(lambda: sells(app, "etcd"))
    sale = app.test_client().get("/stock").get_json()
    assert (sale["orders"], sale["verdict"]) == (4, "EXACT")
