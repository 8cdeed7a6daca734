"""Guards with one flaw each, which only some schedules show."""

from __future__ import annotations

import threading
import time
from typing import Any

from app.contract.clock import now_ns
from app.guards.base import Promise
from app.sales.purchase import Purchase, Receipt, fence_text
from app.sales.stock import sending
from labs.steps.tests.strange_guards import Strange


class Flawed(Strange):
    """What they share."""

    promise = Promise.EXACT

    def pause(self) -> None:
        self.sessions.check_open()
        time.sleep(0.01)


class FenceAtTheWrite(Flawed):
    """The fence is raised behind the write alone: a late one lands between the next holder's read and its write."""

    name = "fence-at-the-write"
    checks_sold_out = True

    def buy(self, purchase: Purchase) -> Receipt:
        stock, mutex = self.stock(purchase.item), self.sessions.mutex(purchase.item)
        with self.locked(mutex, purchase) as section:
            reading = stock.read(section)
            if reading.receipt is None:
                receipt = stock.write(section, reading, fence=section.token)
                self.shop.sale.client.set(self.shop.sale.keys_of[purchase.item].fence, fence_text(section.token))
                return receipt
            return reading.receipt


class Silent(Flawed):
    """B waits for something that nobody can see."""

    def buy(self, purchase: Purchase) -> Receipt:
        threading.Event().wait(15.0 if purchase.buyer == "B" else 0.0)
        with purchase.critical_section() as section:
            return self.stock(purchase.item).sell(section)


class LateAnswer(Flawed):
    """Redis answers it late."""

    name = "late-answer"

    def buy(self, purchase: Purchase) -> Receipt:
        self.shop.sale.client.wait(1, 200)  # ms, for a replica that there is not
        with purchase.critical_section() as section:
            return self.stock(purchase.item).sell(section)


class Chance(Flawed):
    """Right, but what it sends is chance."""

    def buy(self, purchase: Purchase) -> Receipt:
        if now_ns() // 1000 % 2:
            self.shop.sale.client.get(self.shop.sale.keys_of[purchase.item].stock)
        with purchase.critical_section() as section:
            return self.stock(purchase.item).sell(section)


class Leak(Flawed):
    """Takes the mutex, and never gives it back."""

    def buy(self, purchase: Purchase) -> Receipt:
        hold = self.sessions.mutex(purchase.item).acquire(timeout=self.time_left(purchase))
        with purchase.critical_section(hold) as section:
            return self.stock(purchase.item).sell(section)


class Pipeline(Flawed):
    """Asks and decreases in a pipeline that is no transaction: another purchase may come between."""

    def buy(self, purchase: Purchase) -> Receipt:
        client, keys = self.shop.sale.client, self.shop.sale.keys_of[purchase.item]
        with purchase.critical_section():
            asks = client.pipeline(transaction=False)
            asks.get(keys.stock)
            asks.decr(keys.stock)
            left = int(asks.execute()[0])
            if left <= 0:
                client.incr(keys.stock)
                return self.receipt(purchase, left)
            with sending(), client.pipeline() as pipe:
                pipe.incr(keys.lucky)
                pipe.rpush(keys.orders, purchase.entry())
                pipe.execute()
            return self.receipt(purchase, left)


class ClockQueue(Flawed):
    """The first by its own clock is next: an earlier one may come when another is in."""

    def value(self) -> str:
        value = super().value()
        self.redis.zadd(f"{self.shop.sale.keys.prefix}queue", {value: time.time()})
        return value

    def takes(self, value: str) -> Any:
        return self.redis.zrange(f"{self.shop.sale.keys.prefix}queue", 0, 0) == [value]

    def gives_back(self, value: str) -> None:
        self.redis.zrem(f"{self.shop.sale.keys.prefix}queue", value)


class Baton(Flawed):
    """Right without a fault: a purchase waits in Redis for the one baton, and gives it back."""

    def value(self) -> str:
        if self.redis.set(self.key, 1, nx=True):
            self.gives_back("")
        return ""

    def takes(self, value: str) -> Any:
        return self.redis.blpop([f"{self.key}:baton"], timeout=1)

    def gives_back(self, value: str) -> None:
        self.redis.rpush(f"{self.key}:baton", 1)


class Granted(Flawed):
    """Its lease, of which nobody but a local variable knows, may have ended before it is used."""

    def buy(self, purchase: Purchase) -> Receipt:
        etcd = self.sessions.client
        lease = etcd.grant(5)
        etcd.put(f"granted/{purchase.buyer}", "", lease_id=lease.id)
        with purchase.critical_section() as section:
            return self.stock(purchase.item).sell(section)


class Ticket(Flawed):
    """The ticket of a purchase that dies is never given back: all others are told that the item is sold."""

    def buy(self, purchase: Purchase) -> Receipt:
        with purchase.critical_section() as section:
            if self.redis.incr(self.key) <= int(self.redis.get(self.shop.sale.keys.initial) or 0):
                return self.stock(purchase.item).sell(section)
            self.redis.decr(self.key)
            return self.receipt(purchase, 0)


class KeyQueue(Flawed):
    """Right without a fault: the oldest of the keys, whose names are chance, is next."""

    def value(self) -> str:
        self.sessions.client.put(key := f"key-queue/{super().value()}", "", lease_id=self.sessions.session().lease_id)
        return key

    def takes(self, value: str) -> bool:
        keys = self.sessions.client.get_prefix("key-queue/").keys
        return min(keys, key=lambda each: each.create_revision).key == value

    def gives_back(self, value: str) -> None:
        self.sessions.client.delete(value)


class TwoKeys(Flawed):
    """Right until a pause: an attempt is several commands, and gives back what it has if that is not all."""

    promise = Promise.EXACT_UNTIL_PAUSED

    def takes(self, value: str) -> bool:
        keys = [f"{self.key}:{name}" for name in ("one", "two")]
        mine = [key for key in keys if self.redis.set(key, value, nx=True, ex=60)]
        if mine != keys:
            self.redis.delete(*mine or ["none"])
        return mine == keys

    def gives_back(self, value: str) -> None:
        self.redis.delete(f"{self.key}:one", f"{self.key}:two")


FLAWED = {each.name: each for each in Flawed.__subclasses__()}
