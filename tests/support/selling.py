"""Buyers for what is to be seen, and the ledger that what is seen has to agree with."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from typing import Any

from loadtest.results.answer import Answer
from loadtest.shop_client.sale import Sale
from loadtest.shop_client.shops import Shops
from loadtest.stack.stack import Stack

STOCK = 300
_PATIENCE_S = 180.0


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
        self._sale = Sale(stack.urls, redis_url=stack.redis.url, etcd=stack.etcd.endpoint, name="demo")
        self._threads = ThreadPoolExecutor(1)
        self._rush: Future[None] | None = None
        self.answers: list[Answer] = []

    def reset(self, stock: int) -> None:
        """Begin again."""
        self._sale.reset(stock)

    def buy(self, guard: str = "etcd", *, buyers: int = 1, buyer: str = "", hold_ms: int = 0) -> None:
        """Send buyers, all at once, and wait for their answers."""

        def click(number: int) -> Answer:
            name, url = buyer or f"buyer-{number}", self._stack.urls[number % len(self._stack.urls)]
            request = f"{url}/stock/reduce?guard={guard}&hold_ms={hold_ms}&buyer={name}"
            together.wait(_PATIENCE_S)
            return _answer(name, url, urllib.request.Request(request, method="POST"))

        together = Barrier(buyers)
        with ThreadPoolExecutor(buyers) as threads:
            self.answers = list(threads.map(click, range(buyers)))

    def rush(self, guard: str = "etcd", *, stock: int, buyers: int, hold_ms: int) -> None:
        """Begin again, and send the buyers without waiting for them."""
        self.reset(stock)
        self._rush = self._threads.submit(self.buy, guard, buyers=buyers, hold_ms=hold_ms)

    def finish(self) -> None:
        """Wait until all buyers have their answers; raises what kept them from it."""
        if self._rush:
            self._rush.result()
            self._rush = None

    def close(self) -> None:
        """Leave no thread behind."""
        self._threads.shutdown()

    def stock(self) -> Any:
        """What an instance answers to `GET /stock`."""
        with urllib.request.urlopen(f"{self._stack.urls[0]}/stock", timeout=30) as response:
            return json.load(response)

    def ledger(self) -> Counter[str]:
        """Orders of each instance."""
        return Counter(order.instance for order in self._sale.ledger()[0])

    def selling_s(self) -> float:
        """From the first order to the last."""
        times = [order.at_ms for order in self._sale.ledger()[0]]
        return (max(times) - min(times)) / 1000


def _answer(buyer: str, url: str, request: urllib.request.Request) -> Answer:
    sent = time.time()
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as response:
            status, body = response.status, response.read()
    except urllib.error.HTTPError as refused:
        status, body = refused.code, refused.read()
    return Answer.read(buyer, url, status, body, sent=sent, received=time.time())
