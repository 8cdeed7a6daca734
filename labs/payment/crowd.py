"""Buyers who click at once: each asks with one key until it has an answer that settles the purchase."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from urllib.parse import urlencode

from labs.payment.contract import Outcome

DEADLINE_S = 120.0
TIMEOUT_S = 130.0  # of one request: under a lock a buyer stands in line
PAUSE_S = 0.3


class Crowd:
    """Buyers of one sale under one way.

    Attributes:
        way: its name.
        sale: the beginning of their keys, which no other sale has.
        outcomes: by the buyer's key; None for one that comes back and has no answer (yet).
    """

    def __init__(self, way: str, sale: str) -> None:
        self.way = way
        self.sale = sale
        self._threads: list[threading.Thread] = []
        self.outcomes: dict[str, Outcome | None] = {}

    def send(self, key: str, card: str, shops: Sequence[str], *, comes_back: bool = True) -> threading.Thread:
        """Let a buyer click at the first shop; one that `comes_back` asks again, at the next one, without an answer."""
        if comes_back:
            self.outcomes[key] = None
        thread = threading.Thread(target=self._buy, args=(key, card, shops, comes_back), name=key, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def send_next(self, card: str, shops: Sequence[str]) -> threading.Thread:
        """Let another buyer click, each at another shop than the one before."""
        number = len(self._threads) + 1
        first = number % len(shops)
        return self.send(f"{self.sale}buyer-{number}", card, [*shops[first:], *shops[:first]])

    @property
    def is_waiting(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def count(self, *outcomes: Outcome | None) -> int:
        return sum(outcome in outcomes for outcome in self.outcomes.values())

    def _buy(self, key: str, card: str, shops: Sequence[str], comes_back: bool) -> None:
        deadline, turn = time.monotonic() + DEADLINE_S, 0
        while time.monotonic() < deadline:
            outcome = self._click(key, card, shops[turn % len(shops)])
            if outcome not in (None, Outcome.RESERVED):
                self.outcomes[key] = outcome
                break
            if not comes_back:
                break
            turn += outcome is None
            time.sleep(PAUSE_S)

    def _click(self, key: str, card: str, shop: str) -> Outcome | None:
        """What the shop says; None without an answer, or if it cannot tell."""
        url = f"{shop}/payments?{urlencode({'way': self.way, 'card': card})}"
        request = urllib.request.Request(url, headers={"Idempotency-Key": key}, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                return Outcome(json.load(response)["outcome"])
        except urllib.error.HTTPError as error:
            with error:
                return None if error.code >= 500 else Outcome(json.load(error)["outcome"])
        except (OSError, ValueError, HTTPException):
            return None
