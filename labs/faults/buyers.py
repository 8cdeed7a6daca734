"""Buyers that come one after the other; a buyer without an answer retries with the same idempotency key."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any
from urllib.parse import urlencode, urlsplit

from app.contract.outcomes import Outcome
from labs.faults.testbed import Shop
from labs.faults.threads import TrialThreads
from loadtest.results.answer import Answer

MOST_AT_ONCE = 40
CLICKS_PER_S = 25.0  # while a fault is played, so that the sale outlasts it
HOLD_MS = 10  # think time of each of them
CLICK_TIMEOUT_S = 8.0  # of one request; longer than all that a shop that lives may wait for
DEADLINE_S = 20.0  # until a buyer has to know
PAUSE_S = 0.2  # after a refusal


class Buyers:
    """Buyers of the shops: at most `MOST_AT_ONCE`, each with its own idempotency key."""

    def __init__(self, shops: Sequence[Shop], guard: str, threads: TrialThreads) -> None:
        self.answers: list[Answer] = []  # one for each request, in the order in which they came
        self.last_told: dict[str, Any] = {}  # what each buyer's last answer said, as JSON
        self._shops = shops
        self._guard = guard
        self._numbers = itertools.count(1)
        self._draining = threading.Event()
        self._closed = threading.Event()
        self.admission = threading.Event()  # new buyers are let in while it is set; those inside go on
        # Buyers in doubt ask again while it is set: a retry may settle what is still under way.
        self.retries = threading.Event()
        self.retries.set()
        self._next_click = 0.0
        self._lock = threading.Lock()
        self._threads = threads
        self._buying: list[threading.Thread] = []

    def start(self) -> None:
        """Admit buyers: as many as there may be at once click at the same moment."""
        self.admission.set()
        self._next_click = time.monotonic() + 1 / CLICKS_PER_S
        for number in range(MOST_AT_ONCE):
            self._start_thread(f"buyers {number}", self._buy_until_sold_out)

    def start_purchase(self, buyer: str, *, shop: int, hold_ms: int, timeout: float) -> Future[Answer]:
        """`buy` in a thread."""
        answer: Future[Answer] = Future()
        purchase = partial(self.buy, buyer, shop=shop, hold_ms=hold_ms, timeout=timeout)
        self._start_thread(buyer, lambda: answer.set_result(purchase()))
        return answer

    def drain(self) -> None:
        """Let buyers come as fast as they are served, without think time."""
        self._draining.set()
        self.admission.set()
        self.retries.set()

    def wait_ended(self, *, timeout: float) -> bool:
        """Wait until all have heard that the sale is sold out, `timeout` seconds at most; whether they have."""
        deadline = time.monotonic() + timeout
        for thread in self._buying:
            thread.join(max(deadline - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in self._buying)

    def settle_doubts(self, *, timeout: float) -> Sequence[str]:
        """Have the buyers in doubt ask again, for `timeout` seconds at most; those who still do not know."""
        deadline = time.monotonic() + timeout
        while (doubtful := self._doubtful()) and time.monotonic() < deadline:
            for buyer in doubtful:
                self.buy(buyer, shop=0)
            self._closed.wait(PAUSE_S)
        return doubtful

    def close(self) -> None:
        """Admit no more buyers, and let none retry; does not wait for requests under way."""
        self._closed.set()
        self.drain()

    def buy(self, buyer: str, *, shop: int, hold_ms: int = 0, timeout: float = CLICK_TIMEOUT_S) -> Answer:
        """One purchase: the answer that settles it, or the last one before the deadline; `timeout` of each request."""
        deadline, doubted = time.monotonic() + DEADLINE_S, False
        for turn in itertools.count(shop):
            answer = self._click(buyer, self._shops[turn % len(self._shops)], hold_ms, timeout)
            doubted |= answer.in_doubt
            # A refusal speaks of its own request alone: one that was sent before it may still be on its way.
            if answer.outcome.is_served or not doubted or time.monotonic() > deadline:
                break
            self._closed.wait(PAUSE_S)
            self.retries.wait(DEADLINE_S)
            if self._closed.is_set():
                break
        return answer

    def _start_thread(self, name: str, target: Callable[[], object]) -> None:
        self._buying.append(self._threads.start(name, target))

    def _doubtful(self) -> list[str]:
        """The buyers who do not know yet whether they have an order."""
        answers = list(self.answers)
        doubted = {answer.buyer for answer in answers if answer.in_doubt}
        return sorted(doubted - {answer.buyer for answer in answers if answer.outcome.is_served})

    def _buy_until_sold_out(self) -> None:
        while not self._closed.is_set():
            number = next(self._numbers)
            answer = self.buy(f"buyer-{number}", shop=number, hold_ms=0 if self._draining.is_set() else HOLD_MS)
            if answer.outcome is Outcome.SOLD_OUT:
                return
            if not answer.outcome.is_served:
                self._closed.wait(PAUSE_S)
            self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        """Wait until the next click is due; clicks that could not be made in time are left out."""
        with self._lock:
            due = self._next_click = max(self._next_click, time.monotonic()) + 1 / CLICKS_PER_S
        self._draining.wait(due - time.monotonic())
        self.admission.wait()

    def _click(self, buyer: str, shop: Shop, hold_ms: int, timeout: float) -> Answer:
        query = urlencode({"guard": self._guard, "buyer": buyer, "hold_ms": hold_ms})
        sent, status, body = time.time(), 0, b""
        connection = http.client.HTTPConnection(urlsplit(shop.url).netloc, timeout=timeout)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("POST", f"/stock/reduce?{query}", headers={"Idempotency-Key": buyer})
            response = connection.getresponse()
            status, body = response.status, response.read()
        answer = Answer.read(buyer, shop.name, status, body, sent=sent, received=time.time())
        with contextlib.suppress(ValueError):
            self.last_told[buyer] = json.loads(body)
        self.answers.append(answer)
        return answer
