"""redis-py's own lock with its defaults: a key with a life span, asked for ten times a second."""

from __future__ import annotations

import logging
import time

import redis
from redis.exceptions import LockNotOwnedError
from redis.lock import Lock

from app.contract.outcomes import LossCause
from app.guards.base import Guard, Promise
from app.sales.purchase import Purchase, Receipt
from app.sales.redis_client import Refused
from lock import LockTimeout

logger = logging.getLogger(__name__)


class RedisLockGuard(Guard):
    """Has no fencing token: a write after the key has expired succeeds, and the sale may be oversold."""

    name = "redis-lock"
    promise = Promise.EXACT_UNTIL_PAUSED
    description = "redis-py's Lock with its defaults: exact until a holder is paused for longer than the lock lives."
    sort_key = 80
    loses_lock = True

    def buy(self, purchase: Purchase) -> Receipt:
        stock = self.stock(purchase.item)
        key = self.shop.sale.keys_of[purchase.item].lock
        ttl = self.shop.settings.lease_ttl
        lock = Lock(self.shop.sale.client, key, timeout=ttl)
        while True:  # not one long wait, which a shutdown could not end
            self.sessions.check_open()
            if lock.acquire(blocking=False):
                break
            if self.time_left(purchase) < lock.sleep:
                limit = f"{self.lock_timeout:g} s"
                raise LockTimeout(f"lock {key!r} was not free within {limit}")
            time.sleep(lock.sleep)
        try:
            with purchase.critical_section() as section:
                reading = stock.read(section)
                if reading.receipt is None:
                    section.think()
                    return stock.write(section, reading)
                return reading.receipt
        finally:
            _release(lock, purchase)


def _release(lock: Lock, purchase: Purchase) -> None:
    """Release. An error here does not change the outcome of the purchase: the write is over."""
    try:
        lock.release()
    except LockNotOwnedError:
        purchase.loss = LossCause.RELEASED_LATE
        logger.warning("order %s: the Redis lock had expired before it was released", purchase.order)
    except (Refused, redis.ConnectionError, redis.TimeoutError) as error:
        logger.warning("the Redis lock is left to expire: %s", error)
