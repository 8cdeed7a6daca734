"""A sale under a guard from a file: two instances in their own processes, a real Redis, a real etcd, and its ledger."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

from app.contract.keys import Keys
from app.contract.orders import Order
from app.contract.outcomes import Outcome
from labs.grade.stages import Lost
from loadtest.ports import free_port
from loadtest.results.answer import Answer
from loadtest.shop_client.ledger import connect
from loadtest.stack.apps import App
from loadtest.stack.process import Resource
from loadtest.stack.stack import Stack

LATE_S = 5.0  # so much longer than its own limit an answer is waited for
READ_S = 2.0
_numbers = count(1)


class Seller(App):
    """One instance, see `labs.grade.seller`."""

    def __init__(self, shared: Path, name: str) -> None:
        home = shared / name
        home.mkdir()
        super().__init__(name, home, free_port(), {"TMPDIR": str(shared)})
        self._socket = home / "socket"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "labs.grade.seller", str(self._socket)]

    def is_ready(self) -> bool:
        return self._socket.exists()

    def connect(self) -> None:
        self._connection = Client(str(self._socket))

    def stop(self) -> None:
        """Kill it: a guard may keep it from ending."""
        self.kill()

    def send(self, name: str, *arguments: Any) -> None:
        try:
            self._connection.send_bytes(json.dumps([name, arguments]).encode())
        except OSError:
            raise self._ended() from None

    def receive(self, seconds: float) -> Any:
        """The answer to the last request; raises Lost if there is none in time, or the guard has a flaw."""
        try:
            if not self._connection.poll(seconds + LATE_S):
                raise Lost(f"It answered nothing for {seconds + LATE_S:g} s, and blocks its whole process.")
            answer = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            raise self._ended() from None
        if "flaw" in answer:
            raise Lost(sentence(answer["flaw"]))
        return answer["result"]

    def _ended(self) -> Lost:
        code = self.wait()
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        return Lost(f"The process in which the guard ran ended {how}.")


class GradedSale(Resource):
    """One sale at two instances; nothing of an earlier one is left in Redis or files. A start may raise Lost."""

    def __init__(self, servers: Stack, path: Path, *, stock: int, seconds: float) -> None:
        self._name, self._path, self.stock, self._seconds = f"grade-{next(_numbers)}", path, stock, seconds
        self._shared = servers.etcd.directory / self._name
        self._sellers: list[Seller] = []
        self.client = connect(servers.redis.url, READ_S)
        self._settings = {
            "FLASHSALE_ETCD_ENDPOINTS": servers.etcd.endpoint,
            "FLASHSALE_REDIS_URL": servers.redis.url,
            "FLASHSALE_SALE": self._name,
            "FLASHSALE_STOCK": str(stock),
            "FLASHSALE_ITEMS": "2",
            "FLASHSALE_LEASE_TTL": "10",
            "FLASHSALE_LOCK_TIMEOUT": f"{seconds:g}",
            "FLASHSALE_THREADS": "64",
            "FLASHSALE_HOST": "127.0.0.1",
        }
        self.answers: list[Answer] = []  # to all clicks so far

    def start(self) -> None:
        self._shared.mkdir()
        self.client.flushall()
        self._sellers = [Seller(self._shared, f"shop-{number}") for number in (1, 2)]
        for each in self._sellers:
            each.launch()
        for each in self._sellers:
            each.wait_ready()
            each.connect()
            each.send("open", str(self._path), {**self._settings, "FLASHSALE_INSTANCE": each.name})
        for each in self._sellers:
            each.receive(self._seconds)

    def stop(self) -> None:
        for each in self._sellers:
            each.kill()
        self.client.close()

    def buy(self, buyers: Sequence[str], *, item: str = "1", think_s: float = 0.0, first: int = 0) -> list[Answer]:
        """Each buys one at the same time, at the two instances in turn. Raises Lost if the guard has a flaw."""
        shares = [buyers[(first + number) % 2 :: 2] for number in range(2)]
        asked = [pair for pair in zip(self._sellers, shares, strict=True) if pair[1]]
        for seller, share in asked:
            clicks = [{"buyer": buyer, "item": item, "think_s": think_s} for buyer in share]
            seller.send("buy", clicks, self._seconds)
        told = [each for seller, _ in asked for each in seller.receive(self._seconds)]
        if flaws := [each["flaw"] for each in told if "flaw" in each]:
            often = f" {len(flaws)} of {len(told)} buyers got no answer." if len(told) > 1 else ""
            raise Lost(f"{sentence(flaws[0])}{often}")
        answers = [_answer(each) for each in told]
        self.answers += answers
        return answers

    def habits(self) -> list[str]:
        """What the guard has done so far that no guard may, see `labs.grade.habits`."""
        for each in self._sellers:
            each.send("habits")
        return [habit for each in self._sellers for habit in each.receive(READ_S)]

    def ledger(self, item: str = "1") -> tuple[list[Order], int]:
        """The orders, and what the counter says is left; raises Lost if that is no number."""
        keys = Keys(self._name, item)
        left, entries = self.client.get(keys.stock), self.client.lrange(keys.orders, 0, -1)
        try:
            return [Order.decode(each) for each in entries], int(left)
        except (ValueError, TypeError):
            raise Lost("The guard left a counter or an order in Redis that the shop cannot read.") from None


def sentence(flaw: str) -> str:
    """The text with a capital letter and a full stop."""
    return f"{flaw[:1].upper()}{flaw[1:]}" + ("" if flaw.endswith((".", "!", "?")) else ".")


def _answer(told: Mapping[str, Any]) -> Answer:
    outcome = Outcome(told["outcome"])
    order = told["order"] if outcome is Outcome.SOLD else None
    return Answer(**{**told, "instance": "", "outcome": outcome, "order": order})
