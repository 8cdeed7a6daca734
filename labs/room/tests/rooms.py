"""Phones as programs, the stage's controls, and the ledger by which both are judged."""

from __future__ import annotations

import json
import random
import time
import urllib.error
import urllib.request
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from http.cookiejar import CookieJar
from typing import Any

import redis

from app.contract.keys import Keys
from app.contract.orders import Order
from app.contract.section_log import SectionTail
from loadtest.stack.stack import Stack

State = dict[str, Any]
DIRECT = urllib.request.ProxyHandler({})


class Phone:
    """A phone without a page.

    Attributes:
        told: the state that it was told last.
    """

    def __init__(self, url: str, name: str, *, pin: str | None = None) -> None:
        self.url, self.key = url, f"key-{random.getrandbits(64):016x}"
        self._opener = urllib.request.build_opener(DIRECT, urllib.request.HTTPCookieProcessor(CookieJar()))
        self.told: State = {}
        self.ask("/join", {"name": name, **({"pin": pin} if pin else {})})
        self.name = self.told["me"]["name"]

    def ask(self, path: str, body: State | None = None, **headers: str) -> State:
        """The state; raises urllib.error.HTTPError."""
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json", **headers})
        with self._opener.open(asked, timeout=30) as response:
            self.told = json.load(response)
        return self.told

    def buy(self, sale: int) -> State:
        """Click until the answer is there, as the page does."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if self.ask("/buy", {"sale": sale}, **{"Idempotency-Key": self.key})["me"]["bought"] != "pending":
                    return self.told
            except urllib.error.HTTPError as error:
                error.close()
                if error.code not in (409, 429):  # not open yet, too fast
                    raise
            except (OSError, HTTPException):
                pass  # the connection broke
            time.sleep(0.1)
        raise AssertionError(f"{self.name} was not answered")


def crowd_of(url: str, count: int, *, pin: str | None = None) -> list[Phone]:
    """A crowd of this many phones."""
    with ThreadPoolExecutor(16) as threads:
        return list(threads.map(lambda number: Phone(url, f"phone {number}", pin=pin), range(count)))


def ask_board(stack: Stack, path: str, body: State | None = None) -> State:
    """What the board's page of the room asks for."""
    assert stack.board is not None
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(stack.board.url + path, data, {"Content-Type": "application/json"})
    with urllib.request.build_opener(DIRECT).open(asked, timeout=30) as response:
        told: State = json.load(response)
    return told


class Judge:
    """The ledger in Redis, with the number that each order has read by the section log."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._tail = SectionTail(stack.section_log)
        self._read: dict[str, int] = {}

    def orders(self) -> dict[str, tuple[str, int]]:
        """The buyer of each order of the sale, and the number that it has read."""
        self._read |= {each.order: each.stock_read for each in self._tail.poll() if each.stock_read is not None}
        with redis.Redis.from_url(self._stack.redis.url, decode_responses=True) as client:
            entries = client.lrange(Keys("demo").orders, 0, -1)
        orders = [Order.decode(entry) for entry in entries]
        return {each.order: (each.buyer, self._read[each.order]) for each in orders}

    def clashes(self) -> dict[int, set[str]]:
        """The numbers that several orders have read, with the names of their buyers."""
        held = defaultdict[int, list[str]](list)
        for buyer, number in self.orders().values():
            held[number].append(buyer)
        return {number: set(buyers) for number, buyers in held.items() if len(buyers) > 1}
