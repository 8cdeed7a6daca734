"""Optimistic: write only if the stock was not touched since the read, and otherwise begin again."""

from __future__ import annotations

import random
import time

from redis.exceptions import WatchError

from app.guards.base import Guard, Promise
from app.sales.purchase import Purchase, Receipt
from app.sales.refusals import GaveUp

SHORTEST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.4


class RedisWatchGuard(Guard):
    """No purchase waits for another, but of all that read the same stock only one gets to write."""

    name = "redis-watch"
    promise = Promise.EXACT
    description = "WATCH, MULTI, EXEC: no lock, but everybody who was overtaken has to begin again. Exact."

    def buy(self, purchase: Purchase) -> Receipt:
        stock, pause = self.stock(purchase.item), SHORTEST_PAUSE_S
        while True:
            self.sessions.check_open()
            try:
                with stock.watching() as pipe, purchase.critical_section():
                    reading = stock.read(purchase, pipe=pipe)
                    if reading.receipt is None:
                        purchase.think()
                        return stock.write(purchase, reading, pipe=pipe)
                    return reading.receipt
            except WatchError:
                pause = min(2 * pause, LONGEST_PAUSE_S)
            if pause > self.time_left(purchase):
                raise GaveUp(f"others were faster, again and again, for {self.tools.lock_timeout:g} s")
            time.sleep(random.uniform(0, pause))  # full jitter
