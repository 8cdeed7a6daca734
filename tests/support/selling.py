"""Buyers for what is to be seen, and the ledger that what is seen has to agree with."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from itertools import cycle
from threading import Barrier
from typing import Any
from urllib.parse import urlencode, urlsplit

from loadtest.shop_client.sale import SaleClient
from loadtest.shop_client.shops import Shops
from loadtest.stack.stack import Stack

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
        self._threads = ThreadPoolExecutor(1)
        self._rush: Future[None] | None = None

    def reset(self, stock: int) -> None:
        """Begin again."""
        self._sale.reset(stock)

    def buy(self, guard: str = "etcd", *, buyers: int = 1, buyer: str = "", hold_ms: int = 0) -> None:
        """Send buyers, all at once, and wait for their answers."""
        together = Barrier(buyers)

        def click(number: int, url: str) -> None:
            query = urlencode({"guard": guard, "hold_ms": hold_ms, "buyer": buyer or f"buyer-{number}"})
            connection = HTTPConnection(urlsplit(url).netloc, timeout=ANSWER_S)
            together.wait()
            with suppress(OSError, HTTPException):  # of a shop that was killed
                connection.request("POST", f"/stock/reduce?{query}")
                connection.getresponse().read()
            connection.close()

        with ThreadPoolExecutor(buyers) as threads:
            list(threads.map(click, range(buyers), cycle(self._stack.urls)))

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
