"""Redis's lock with a fencing token: the script that takes the lock counts its holders, and a late one is refused."""

from __future__ import annotations

import time
from contextlib import suppress

from app.contract.outcomes import LossCause
from app.guards.base import Guard, Promise
from app.sales.purchase import Purchase, Receipt
from app.sales.refusals import REDIS_ERRORS
from lock import LockTimeout

PAUSE_S = 0.1
# KEYS: the lock, the number of holders so far; ARGV: the owner, its life span in ms. Returns the token of a new holder.
ACQUIRE = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and redis.call('INCR', KEYS[2])"
# KEYS: the lock; ARGV: the owner. Returns 1 if it had the lock.
RELEASE = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0"


class RedisFencedGuard(Guard):
    """Has no queue, and its holder is not told of a loss. Its tokens live in Redis alone, like the stock."""

    name = "redis-fenced"
    promise = Promise.EXACT
    description = "SET NX PX and a token from the same script, and Redis refuses every lower token. Exact."
    sort_key = 85
    loses_lock = True

    def buy(self, purchase: Purchase) -> Receipt:
        stock = self.stock(purchase.item)
        try:
            token = self._acquire(purchase)
            with purchase.critical_section(token=token) as section:
                reading = stock.read(section, fence=token)  # Redis remembers the token and refuses lower ones
                if reading.receipt is None:  # something is left, and this is not a retry
                    section.think()
                    return stock.write(section, reading, fence=token)
                return reading.receipt
        finally:
            self._release(purchase)  # in vain if the lock is not ours; needed if the answer that it is was lost

    def _acquire(self, purchase: Purchase) -> int:
        client, keys = self.shop.sale.client, self.shop.sale.keys_of[purchase.item]
        ttl_ms = self.shop.settings.lease_ttl * 1000
        while not (token := client.eval(ACQUIRE, 2, keys.lock, keys.tokens, purchase.order, ttl_ms)):
            self.sessions.check_open()
            if self.time_left(purchase) < PAUSE_S:
                raise LockTimeout(f"lock {keys.lock!r} was not free within {self.lock_timeout:g} s")
            time.sleep(PAUSE_S)
        return int(token)

    def _release(self, purchase: Purchase) -> None:
        with suppress(*REDIS_ERRORS):  # the write is over, and the lock is left to expire
            is_ours = self.shop.sale.client.eval(RELEASE, 1, self.shop.sale.keys_of[purchase.item].lock, purchase.order)
            if purchase.section and not is_ours:
                purchase.loss = LossCause.RELEASED_LATE
