"""Buyers at shops that run in this process, and the ledger of their sale."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar
from unittest import mock

from flask import Flask

from app.config.environment import EnvironmentSettings
from app.guards import guards
from app.sales.purchase import Purchase, Section
from app.sales.sale import Sale
from app.sales.snapshot import SaleSnapshot
from loadtest.stack.servers import Etcd, Redis
from lock import Mutex
from tests.support.waiting import wait_until

WAIT_S = 20.0  # far more than anything that is waited for takes
Answer = dict[str, Any]
T = TypeVar("T")
S = TypeVar("S", bound=EnvironmentSettings)


WAYS = [*guards()]


def buy(shop: Flask, guard: str = "etcd", *, key: str | None = None, **query: Any) -> Answer:
    """The answer to one purchase under a guard, with status and some headers."""
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = shop.test_client().post("/stock/reduce", query_string={"guard": guard, **query}, headers=headers)
    told = {"replayed": answer.headers.get("Idempotency-Replayed"), "retry_after": answer.headers.get("Retry-After")}
    return {**answer.get_json(), **told, "status": answer.status_code}


def refused(answer: Answer, *, in_doubt: bool = False) -> str:
    """What a purchase is told that is answered 503, with Retry-After."""
    assert answer["status"] == 503, answer
    assert answer["outcome"] == "unavailable", answer
    assert answer["in_doubt"] is in_doubt, answer
    assert answer["retry_after"] == "1"
    return str(answer["detail"])


def environment(etcd: Etcd, redis: Redis, sale: str) -> dict[str, str]:
    """The environment of instances that sell this sale: ten items, and patience for what a test makes them wait for."""
    return {
        "FLASHSALE_ETCD_ENDPOINTS": etcd.endpoint,
        "FLASHSALE_REDIS_URL": redis.url,
        "FLASHSALE_SALE": sale,
        "FLASHSALE_STOCK": "10",
        "FLASHSALE_LEASE_TTL": "2",
        "FLASHSALE_LOCK_TIMEOUT": "20",
        "FLASHSALE_THREADS": "16",
    }


def in_ms(milliseconds: int) -> int:
    """A time so long from now, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000 + milliseconds


def at_once(count: int, click: Callable[[int], T]) -> list[T]:
    """What `click(0)`, `click(1)`, ... return, called at the same moment by as many threads."""
    barrier = threading.Barrier(count)

    def wait_and_click(number: int) -> T:
        barrier.wait(WAIT_S)
        return click(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(wait_and_click, range(count)))


def queue_behind(mutex: Mutex, crowd: ThreadPoolExecutor, shop: Flask, guard: str, **query: Any) -> Future[Answer]:
    """A purchase that stands in the queue of `mutex` in etcd when this returns."""
    before = len(mutex.contenders())
    buyer = crowd.submit(buy, shop, guard, **query)
    wait_until(lambda: len(mutex.contenders()) > before)
    return buyer


def ledger(sale: Sale, item: str = "1") -> list[dict[str, Any]]:
    """The entries of an item's ledger."""
    return [json.loads(entry) for entry in sale.client.lrange(sale.keys_of[item].orders, 0, -1)]


@dataclass(frozen=True)
class Token:
    """A hold that is never lost, of a lock that is not there."""

    token: Any

    def ensure(self) -> None: ...


def section_of(purchase: Purchase, token: Any = None) -> Section:
    """The critical section of a purchase, under a token if one is given."""
    return purchase.critical_section(None if token is None else Token(token))


def snapshot_of(example: dict[str, Any]) -> SaleSnapshot:
    """What Redis has in an example of tests/data/verdicts.json."""
    return SaleSnapshot(initial=example["stock"], stock=example["stock_left"], lucky=0, orders=example["sold"])


def read_settings(kind: type[S], given: Mapping[str, str]) -> S:
    """The settings of a process whose environment has these variables alone."""
    with mock.patch.dict(os.environ, given, clear=True):
        return kind.from_environment()
