"""Buyers at shops that run in this process or in a stack, and the ledger of their sale."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, TypeVar
from unittest import mock
from urllib.parse import urlencode
from urllib.request import urlopen

from flask import Flask

from app.config.environment import EnvironmentSettings
from app.guards import guards
from app.sales.purchase import Purchase, Section
from app.sales.sale import Sale
from app.sales.snapshot import SaleSnapshot
from loadtest.shop_client.sale import SaleClient
from loadtest.shop_client.shops import Shops
from loadtest.stack.servers import Etcd, Redis
from loadtest.stack.stack import Stack
from lock import Mutex
from tests.support.waiting import in_thread, wait_until

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


# Buyers for what is to be seen, and the ledger that what is seen has to agree with.


STOCK = 300
ANSWER_S = 60.0


def open_sale(stack: Stack) -> None:
    """Give the stack an open sale of `STOCK` items, once the purchases of earlier tests are over."""
    shops = Shops(stack.urls)
    for _ in shops.until_idle():
        pass
    shops.reset(STOCK)


class Sales:
    """The sale of one stack."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._sale = SaleClient(stack.urls, redis_url=stack.redis.url, etcd=stack.etcd.endpoint, name="demo")
        self._rush: Future[None] | None = None

    def reset(self, stock: int) -> None:
        """Begin again."""
        self._sale.reset(stock)

    def buy(self, guard: str = "etcd", *, buyers: int = 1, hold_ms: int = 0) -> None:
        """Send buyers, all at once, and wait for their answers."""

        def click(number: int) -> None:
            query = urlencode({"guard": guard, "hold_ms": hold_ms, "buyer": f"buyer-{number}"})
            url = self._stack.urls[number % len(self._stack.urls)]
            with suppress(OSError, HTTPException):  # of a shop that was killed
                urlopen(f"{url}/stock/reduce?{query}", b"", timeout=ANSWER_S).close()

        at_once(buyers, click)

    def rush(self, guard: str = "etcd", *, stock: int, buyers: int, hold_ms: int) -> None:
        """Begin again, and send the buyers without waiting for them."""
        self.reset(stock)
        self._rush = in_thread(self.buy, guard, buyers=buyers, hold_ms=hold_ms)

    def finish(self) -> None:
        """Wait until all buyers have their answers; raises what kept them from it."""
        if self._rush:
            self._rush.result()
            self._rush = None

    def stock(self) -> Any:
        """What an instance answers to `GET /stock`."""
        with urlopen(f"{self._stack.urls[0]}/stock", timeout=30) as response:
            return json.load(response)

    def ledger(self) -> Counter[str]:
        """Orders of each instance."""
        return Counter(order.instance for order in self._sale.ledger()[0])

    def selling_s(self) -> float:
        """From the first order to the last."""
        times = [order.at_ms for order in self._sale.ledger()[0]]
        return (max(times) - min(times)) / 1000
