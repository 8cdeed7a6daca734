"""Buyers who click at once: each asks with one key until it has an answer that settles the purchase."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from urllib.parse import urlencode

from labs.payment.calls import Unanswered, call
from labs.payment.contract import Outcome

DEADLINE_S = 120.0
TIMEOUT_S = 130.0  # of one request: under a lock a buyer stands in line
PAUSE_S = 0.3


class Crowd:
    """Buyers of one sale under one way; `sale` is the beginning of their keys, which no other sale has."""

    def __init__(self, way: str, sale: str) -> None:
        self._way, self.sale = way, sale
        self._threads: list[threading.Thread] = []
        # By the buyer's key; `None` for one that comes back and has no answer (yet).
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

    def _buy(self, key: str, card: str, shops: Sequence[str], comes_back: bool) -> None:
        deadline, turn = time.monotonic() + DEADLINE_S, 0
        query = urlencode({"way": self._way, "card": card})
        while time.monotonic() < deadline:
            try:
                answer = call("POST", f"{shops[turn % len(shops)]}/payments?{query}", key=key, timeout=TIMEOUT_S)
            except Unanswered:
                turn += 1
            else:
                if (outcome := Outcome(answer["outcome"])) is not Outcome.RESERVED:
                    self.outcomes[key] = outcome
                    return
            if not comes_back:
                return
            time.sleep(PAUSE_S)
