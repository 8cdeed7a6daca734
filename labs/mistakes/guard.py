"""What all mistakes share: how they wait, sell and release. Each of them is otherwise right."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import redis

from app.guards.base import Guard, Parts
from app.sales.purchase import Purchase, Receipt, Section
from lock import Created, EtcdError, LockTimeout

PAUSE_S = 0.05
# KEYS: the lock; ARGV: its owner. Returns 1 if the owner had it.
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
LOST = (redis.ConnectionError, redis.TimeoutError)


class Mistake(Guard):
    """A wrong lock."""

    found: ClassVar[str]  # where it was seen
    mend: ClassVar[tuple[str, str]]  # lines of its file that are wrong, and those that mend them
    buyers: ClassVar[int] = 2  # of the smallest sale in which it goes wrong
    items: ClassVar[int] = 1  # likewise
    fault: ClassVar[str] = "none"  # with which it does, as `make schedules` names it: none, kill or lost
    lost: ClassVar[tuple[str, ...]] = ("",)  # beginnings of the commands whose answer is lost then

    def __init__(self, shop: Parts) -> None:
        super().__init__(shop)
        self.redis, self.ttl_ms = shop.sale.client, shop.settings.lease_ttl * 1000

    def key(self, purchase: Purchase) -> str:
        """The lock in Redis."""
        return self.shop.sale.keys_of[purchase.item].lock

    def pause(self, purchase: Purchase) -> None:
        """Between two attempts to get the lock; raises LockTimeout or ShuttingDown."""
        self.sessions.check_open()
        if not self.time_left(purchase):
            raise LockTimeout(f"the lock of {self.name} was not free within {self.lock_timeout:g} s")
        time.sleep(PAUSE_S)

    def sell(self, section: Section) -> Receipt:
        """What the lock is for: read, think, and write what was read less one."""
        stock = self.stock(section.purchase.item)
        reading = stock.read(section)
        if reading.receipt is None:
            section.think()
            return stock.write(section, reading)
        return reading.receipt

    def release(self, key: str, owner: str) -> None:
        """Delete the lock if it is the owner's; if Redis does not answer, it is left to expire."""
        self.retry(self.redis.eval, RELEASE, 1, key, owner)

    def retry(self, command: Callable[..., Any], *arguments: Any) -> None:
        """Send a command once more if its answer is lost, as redis-py does by itself."""
        for _ in range(2):
            with suppress(*LOST):
                command(*arguments)
                return


class EtcdMistake(Mistake):
    """A wrong lock that is a key in etcd."""

    def key(self, purchase: Purchase) -> str:
        return f"{self.sessions.name(purchase.item)}:lock"

    def release(self, key: str, owner: str) -> None:
        """Delete the lock if it is the owner's; if etcd does not answer, its lease ends it."""
        with suppress(EtcdError):
            found = self.sessions.client.get(key)
            if found is not None and found.value == owner.encode():
                self.sessions.client.delete(key, if_=Created(key.encode(), found.create_revision))
