"""Buyers that come one after the other; a buyer without an answer retries with the same idempotency key."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import threading
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

from app.contract.outcomes import Outcome
from labs.faults.shops import Shop
from labs.faults.threads import TrialThreads
from loadtest.results.answer import Answer

LANES = 40
PACE = 25.0  # clicks a second while a fault is played, so that the sale outlasts it
HOLD_MS = 10  # think time of each of them
CLICK_TIMEOUT_S = 8.0  # of one request; longer than all that a shop that lives may wait for
DEADLINE_S = 20.0  # until a buyer has to know
PAUSE_S = 0.2  # after a refusal


class Buyers:
    """Buyers of the shops: at most `LANES` at once, each with its own idempotency key.

    Attributes:
        answers: one for each request, in the order in which they came.
        told: what each buyer's last answer said, as JSON.
        doors: new buyers are let in while it is set; those inside go on.
        retries: buyers in doubt ask again while it is set: a retry may settle what is still under way.
    """

    def __init__(self, shops: Sequence[Shop], guard: str, threads: TrialThreads) -> None:
        self.answers: list[Answer] = []
        self.told: dict[str, Any] = {}
        self._shops = shops
        self._guard = guard
        self._numbers = itertools.count(1)
        self._hurry = threading.Event()
        self._closed = threading.Event()
        self.doors = threading.Event()
        self.retries = threading.Event()
        self.retries.set()
        self._next_click = 0.0
        self._lock = threading.Lock()
        self._threads = threads
        self._lanes: list[threading.Thread] = []

    def start(self) -> None:
        """Open the doors: the first of all lanes click at once."""
        self.doors.set()
        self._next_click = time.monotonic() + 1 / PACE
        self._lanes = [self._threads.start(f"lane {number}", self._shop_around) for number in range(LANES)]

    def hurry(self) -> None:
        """Let buyers come as fast as they are served, without think time."""
        self._hurry.set()
        self.doors.set()
        self.retries.set()

    def finish(self, *, timeout: float) -> bool:
        """Wait until all lanes have heard that the sale is sold out; False if they have not after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        for lane in self._lanes:
            lane.join(max(deadline - time.monotonic(), 0.0))
        return not any(lane.is_alive() for lane in self._lanes)

    def close(self) -> None:
        """Let no more buyers in; does not wait for those inside."""
        self._closed.set()
        self.hurry()

    def buy(self, buyer: str, *, shop: int, hold_ms: int = 0, timeout: float = CLICK_TIMEOUT_S) -> Answer:
        """One purchase: the answer that settles it, or the last one before the deadline; `timeout` of each request."""
        deadline, doubted = time.monotonic() + DEADLINE_S, False
        for turn in itertools.count(shop):
            answer = self._click(buyer, self._shops[turn % len(self._shops)], hold_ms, timeout)
            doubted |= answer.in_doubt
            # A refusal speaks of its own request alone: one that was sent before it may still be on its way.
            if answer.outcome.is_served or not doubted or time.monotonic() > deadline:
                break
            time.sleep(PAUSE_S)
            self.retries.wait(DEADLINE_S)
        return answer

    def doubtful(self) -> list[str]:
        """The buyers who do not know yet whether they have an order."""
        answers = list(self.answers)
        doubted = {answer.buyer for answer in answers if answer.in_doubt}
        return sorted(doubted - {answer.buyer for answer in answers if answer.outcome.is_served})

    def _shop_around(self) -> None:
        while not self._closed.is_set():
            number = next(self._numbers)
            answer = self.buy(f"buyer-{number}", shop=number, hold_ms=0 if self._hurry.is_set() else HOLD_MS)
            if answer.outcome is Outcome.SOLD_OUT:
                return
            if not answer.outcome.is_served:
                self._closed.wait(PAUSE_S)
            self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        """Until the next click is due; clicks that could not be made in time are left out."""
        with self._lock:
            due = self._next_click = max(self._next_click, time.monotonic()) + 1 / PACE
        self._hurry.wait(due - time.monotonic())
        self.doors.wait()

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
            self.told[buyer] = json.loads(body)
        self.answers.append(answer)
        return answer
