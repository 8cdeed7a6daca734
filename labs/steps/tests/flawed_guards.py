"""Guards with one flaw each, which only some schedules show."""

from __future__ import annotations

import threading
import time

from app.contract.clock import now_ns
from app.contract.outcomes import Outcome
from app.guards.base import Guard, Promise
from app.sales.purchase import Purchase, Receipt, Section, fence_text
from app.sales.stock import sending


class Flawed(Guard):
    """What they share."""

    promise = Promise.EXACT
    description = "A guard with a flaw."

    def read_and_write(self, section: Section) -> Receipt:
        stock = self.stock(section.purchase.item)
        reading = stock.read(section)
        return reading.receipt or stock.write(section, reading)


class WriteFenceGuard(Flawed):
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


class SilentGuard(Flawed):
    """B waits for something that nobody can see."""

    name = "silent"

    def buy(self, purchase: Purchase) -> Receipt:
        threading.Event().wait(15.0 if purchase.buyer == "B" else 0.0)
        with purchase.critical_section() as section:
            return self.stock(purchase.item).sell(section)


class ChanceGuard(Flawed):
    """Right, but what it sends is chance."""

    name = "chance"

    def buy(self, purchase: Purchase) -> Receipt:
        if now_ns() // 1000 % 2:
            self.shop.sale.client.get(self.shop.sale.keys_of[purchase.item].stock)
        with purchase.critical_section() as section:
            return self.stock(purchase.item).sell(section)


class LeakGuard(Flawed):
    """Takes the mutex, and never gives it back."""

    name = "leak"

    def buy(self, purchase: Purchase) -> Receipt:
        hold = self.sessions.mutex(purchase.item).acquire(timeout=self.time_left(purchase))
        with purchase.critical_section(hold) as section:
            return self.stock(purchase.item).sell(section)


class PipelineGuard(Flawed):
    """Asks and decreases in a pipeline that is no transaction: another purchase may come between."""

    name = "pipeline"

    def buy(self, purchase: Purchase) -> Receipt:
        client, keys = self.shop.sale.client, self.shop.sale.keys_of[purchase.item]
        with purchase.critical_section():
            asks = client.pipeline(transaction=False)
            asks.get(keys.stock)
            asks.decr(keys.stock)
            left, _ = asks.execute()
            if int(left) <= 0:
                client.incr(keys.stock)
                return Receipt(Outcome.SOLD_OUT, self.name, stock=0)
            with sending(), client.pipeline() as pipe:
                pipe.incr(keys.lucky)
                pipe.rpush(keys.orders, purchase.entry())
                pipe.execute()
            return Receipt(Outcome.SOLD, self.name, order=purchase.order, stock=int(left) - 1)


class ClockQueueGuard(Flawed):
    """The first by its own clock is next: an earlier one may come when another is in."""

    name = "clock-queue"

    def buy(self, purchase: Purchase) -> Receipt:
        client, queue = self.shop.sale.client, f"{self.shop.sale.keys.prefix}queue"
        client.zadd(queue, {purchase.order: time.time()})
        while client.zrange(queue, 0, 0) != [purchase.order]:
            self.sessions.check_open()
            time.sleep(0.01)
        with purchase.critical_section() as section:
            receipt = self.read_and_write(section)
        client.zrem(queue, purchase.order)
        return receipt


class Baton(Flawed):
    """Right without a fault: a purchase waits in Redis for the one baton, and gives it back."""

    name = "baton"

    def buy(self, purchase: Purchase) -> Receipt:
        client, prefix = self.shop.sale.client, self.shop.sale.keys.prefix
        if client.set(f"{prefix}made", 1, nx=True):
            client.rpush(f"{prefix}baton", 1)
        while client.blpop([f"{prefix}baton"], timeout=1) is None:
            self.sessions.check_open()
        with purchase.critical_section() as section:
            receipt = self.read_and_write(section)
        client.rpush(f"{prefix}baton", 1)
        return receipt


class GrantedGuard(Flawed):
    """Its lease, of which nobody but a local variable knows, may have ended before it is used."""

    name = "granted"

    def buy(self, purchase: Purchase) -> Receipt:
        etcd = self.sessions.client
        lease = etcd.grant(5)
        etcd.put(f"granted/{purchase.buyer}", "", lease_id=lease.id)
        with purchase.critical_section() as section:
            return self.stock(purchase.item).sell(section)


class TicketGuard(Flawed):
    """The ticket of a purchase that dies is never given back: all others are told that the item is sold."""

    name = "ticket"

    def buy(self, purchase: Purchase) -> Receipt:
        client, tickets = self.shop.sale.client, f"{self.shop.sale.keys.prefix}tickets"
        with purchase.critical_section() as section:
            if client.incr(tickets) <= int(client.get(self.shop.sale.keys.initial) or 0):
                return self.stock(purchase.item).sell(section)
            client.decr(tickets)
            return Receipt(Outcome.SOLD_OUT, self.name, stock=0)


class KeyQueue(Flawed):
    """Right without a fault: the oldest of the keys, whose names are chance, is next."""

    name = "key-queue"

    def buy(self, purchase: Purchase) -> Receipt:
        etcd, key = self.sessions.client, f"key-queue/{purchase.order}"
        etcd.put(key, "", lease_id=self.sessions.session().lease_id)
        while min(etcd.get_prefix("key-queue/").keys, key=lambda each: each.create_revision).key != key:
            self.sessions.check_open()
            time.sleep(0.01)
        with purchase.critical_section() as section:
            receipt = self.read_and_write(section)
        etcd.delete(key)
        return receipt


class TwoKeys(Flawed):
    """Right until a pause: an attempt is several commands, and gives back what it has if that is not all."""

    name = "two-keys"
    promise = Promise.EXACT_UNTIL_PAUSED

    def buy(self, purchase: Purchase) -> Receipt:
        client, keys = self.shop.sale.client, [f"{self.shop.sale.keys.prefix}{name}" for name in ("one", "two")]
        while len(mine := [key for key in keys if client.set(key, purchase.order, nx=True, ex=60)]) < len(keys):
            client.delete(*mine or ["none"])
            self.sessions.check_open()
            time.sleep(0.01)
        with purchase.critical_section() as section:
            receipt = self.read_and_write(section)
        client.delete(*keys)
        return receipt


GUARDS = (
    WriteFenceGuard, SilentGuard, ChanceGuard, LeakGuard, PipelineGuard, ClockQueueGuard, Baton,
    GrantedGuard, TicketGuard, KeyQueue, TwoKeys,
)  # fmt: skip
FLAWED: dict[str, type[Guard]] = {guard.name: guard for guard in GUARDS}
