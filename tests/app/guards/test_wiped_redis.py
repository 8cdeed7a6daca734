"""Redis loses its data in the middle of a rush: nothing is sold twice, and nothing at all before a reset."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from flask import Flask

from app.guards import GUARDS, Promise
from loadtest.stack.servers import Redis
from tests.support.shops import Answer, buy

STOCK = 40
WAYS = {guard.name: guard.promise is not Promise.NONE for guard in GUARDS} | {"cart": True}
RUSHES = ["none", "redis-watch", "etcd-batch", "etcd-sharded", "cart"]  # the others read and write as one of these


@pytest.fixture
def shops(make: Callable[..., Flask], fresh_redis: Redis) -> list[Flask]:
    """Two instances on a Redis that may lose everything."""
    return [make(redis_url=fresh_redis.url, instance=name, threads=40) for name in ("shop-a", "shop-b")]


def click(shop: Flask, guard: str) -> Answer:
    return buy(shop, guard, hold_ms=2)


@pytest.mark.parametrize("guard", RUSHES)
def test_a_wipe_in_the_middle_of_a_rush(
    shops: list[Flask], make: Callable[..., Flask], fresh_redis: Redis, guard: str
) -> None:
    """No more orders are acknowledged than were for sale; from the wipe until the reset all instances answer 503."""
    admin = shops[0].test_client()
    assert admin.post("/stock/reset", json={"stock": STOCK}).status_code == 200
    enough, answers = threading.Semaphore(0), list[Answer]()

    def keep_buying(number: int) -> None:
        while not answers or answers[-1].get("detail", "").find("lost this sale") < 0:
            answers.append(click(shops[number % 2], guard))
            enough.release()

    with redis.Redis(port=fresh_redis.port) as client, ThreadPoolExecutor(16) as threads:
        buyers = [threads.submit(keep_buying, number) for number in range(16)]
        for _ in range(STOCK // 4):
            enough.acquire(timeout=20)
        client.flushall()
        for buyer in buyers:
            buyer.result(20)
        shops.append(make(redis_url=fresh_redis.url, instance="shop-c"))
        assert [click(shop, each)["status"] for shop in shops for each in WAYS] == [503] * 3 * len(WAYS)
        assert not client.keys("*orders*"), "a late write leaves nothing"
    outcomes = Counter(answer["outcome"] for answer in answers)
    assert outcomes["sold"] >= 1
    if WAYS[guard]:
        assert outcomes["sold"] <= STOCK
    for shop in shops:
        browser = shop.test_client()
        assert "Redis has lost this sale: reset it" in click(shop, guard)["detail"]
        assert browser.get("/stock").status_code == browser.get("/readyz").status_code == 503
        assert "lost this sale" in browser.get("/stock").get_json()["detail"]
        assert "lost this sale" in browser.get("/readyz").get_json()["sale"]
    assert admin.post("/stock/reset", json={"stock": 3}).status_code == 200
    answers = [click(shop, guard) for shop in [*shops, shops[0]]]
    assert [answer["status"] for answer in answers] == [200, 200, 200, 409], answers
    assert all(shop.test_client().get("/readyz").status_code == 200 for shop in shops)
