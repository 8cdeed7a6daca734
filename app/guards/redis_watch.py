"""Optimistic: write only if the stock was not touched since the read, and otherwise begin again."""

from __future__ import annotations

import random
import time

from redis.exceptions import WatchError

from app.guards.base import Guard, Parts, Promise
from app.sales.purchase import Purchase, Receipt
from lock import LockTimeout

PAUSE_S = 0.004  # for each purchase of this instance that tries: about what one attempt costs it
LONGEST_PAUSE_S = 0.8


class RedisWatchGuard(Guard):
    """No purchase waits for another, but of all that read the same stock only one can write.

    An overtaken purchase pauses for a random time (full jitter), in proportion to the number of purchases that try: of
    concurrent attempts all but one fail, and delay the others.
    """

    name = "redis-watch"
    promise = Promise.EXACT
    description = "WATCH, MULTI, EXEC: no lock, but a purchase that was overtaken begins again. Exact."
    sort_key = 90

    def __init__(self, shop: Parts) -> None:
        super().__init__(shop)
        self._trying: set[str] = set()

    def buy(self, purchase: Purchase) -> Receipt:
        self._trying.add(purchase.order)
        try:
            while True:
                self.sessions.check_open()
                try:
                    return self._attempt(purchase)
                except WatchError:
                    longest = min(len(self._trying) * PAUSE_S, LONGEST_PAUSE_S)
                    pause = random.uniform(0, longest)
                if pause > self.time_left(purchase):
                    limit = f"{self.lock_timeout:g} s"
                    raise LockTimeout(f"overtaken again and again for {limit}")
                time.sleep(pause)
        finally:
            self._trying.discard(purchase.order)

    def _attempt(self, purchase: Purchase) -> Receipt:
        stock = self.stock(purchase.item)
        with stock.watching() as pipe, purchase.critical_section() as section:
            reading = stock.read(section, pipe=pipe)
            if reading.receipt is None:
                section.think()
                return stock.write(section, reading, pipe=pipe)
            return reading.receipt
