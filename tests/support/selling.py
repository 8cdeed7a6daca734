"""Buyers for what is to be seen, and the ledger that what is seen has to agree with."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import Future
from contextlib import suppress
from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from loadtest.shop_client.sale import SaleClient
from loadtest.shop_client.shops import Shops
from loadtest.stack.stack import Stack
from tests.support.shops import at_once
from tests.support.waiting import in_thread

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
