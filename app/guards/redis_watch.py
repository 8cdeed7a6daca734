"""Optimistic: write only if nobody touched the stock since the read, and otherwise begin again."""

from __future__ import annotations

import random
import time

from redis.exceptions import WatchError

from app.guards.base import Guard, Promise, read_modify_write
from app.sales.purchase import Purchase, Receipt
from app.sales.refusals import GaveUp

LONGEST_PAUSE = 0.05


class RedisWatchGuard(Guard):
    """Nobody waits for anybody, but of all who read the same stock only one gets to write."""

    name = "redis-watch"
    promise = Promise.EXACT
    description = "WATCH, MULTI, EXEC: no lock, but everybody who was overtaken has to begin again. Exact."

    def buy(self, purchase: Purchase) -> Receipt:
        deadline = time.monotonic() + self.tools.lock_timeout
        pause = 0.001
        while True:
            self.tools.sessions.check_open()
            with self.inventory(purchase).watching() as pipe, purchase.critical_section():
                try:
                    return read_modify_write(self.inventory(purchase), purchase, pipe)
                except WatchError:
                    pause = min(2 * pause, LONGEST_PAUSE)
            if time.monotonic() + pause > deadline:
                raise GaveUp(f"others were faster, again and again, for {self.tools.lock_timeout:g} s")
            time.sleep(random.uniform(0, pause))
