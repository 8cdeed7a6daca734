"""Guards with one flaw each, which only some schedules show."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from app.contract.clock import now_ns
from app.contract.outcomes import Outcome
from app.guards.base import Guard, Promise
from app.guards.etcd import EtcdGuard
from app.sales.purchase import Purchase, Receipt, fence_text
from app.sales.redis_client import Script
from app.sales.stock import Reading, decisions, sending

WRITE = Script(Path(__file__).with_name("write_fence.lua"))
ONE_ORDER = "ABABBBA"  # of the notes of two purchases


class WriteFenceGuard(EtcdGuard):
    """The write alone raises the fence: a late one lands between the next holder's read and its write."""

    name = "fence-at-the-write"
    description = "An etcd mutex and a fence that only the write raises."

    def buy(self, purchase: Purchase) -> Receipt:
        stock, mutex = self.stock(purchase.item), self.sessions.mutex(purchase.item)
        with self.locked(mutex, purchase) as section:
            reading = stock.read(section)
            if reading.receipt is None:
                section.think()
                section.ensure()
                purchase.listener.write(section)
                k, token = self.shop.sale.keys_of[purchase.item], section.token
                asked: list[str | int] = [
                    reading.generation,
                    fence_text(token),
                    purchase.entry(token),
                    reading.stock - 1,
                ]
                keys = [k.stock, k.lucky, k.orders, k.fence, k.generation]
                section.commit_at = now_ns()
                with sending():
                    answer = WRITE.run(self.shop.sale.client, keys, asked)
                (decision,) = decisions(answer, token)
                section.receipt = receipt = decision.receipt(purchase, token)
                return receipt
            return reading.receipt


class OneOrderGuard(Guard):
    """Each purchase notes its steps in Redis. In one single order of them, one writes what it believes is left."""

    name = "one-order"
    promise = Promise.EXACT
    description = "One atomic script, but for one order of the steps."

    def buy(self, purchase: Purchase) -> Receipt:
        stock, keys, client = self.stock(purchase.item), self.shop.sale.keys_of[purchase.item], self.shop.sale.client
        generation = str(client.get(keys.generation))
        notes = f"{keys.prefix}notes:{generation}"
        client.append(notes, purchase.buyer)
        try:
            with purchase.critical_section() as section:
                client.append(notes, purchase.buyer)
                purchase.listener.write(section)
                client.append(notes, purchase.buyer)
                if client.get(notes) == ONE_ORDER:
                    return stock.write(section, Reading(stock=1, generation=generation))
                return stock.sell(section)
        finally:
            client.append(notes, purchase.buyer)


class SilentGuard(Guard):
    """B waits for something that nobody can see."""

    name = "silent"
    promise = Promise.EXACT
    description = "Waits where nothing can be seen."

    def buy(self, purchase: Purchase) -> Receipt:
        threading.Event().wait(15.0 if purchase.buyer == "B" else 0.0)
        with purchase.critical_section() as section:
            return self.stock(purchase.item).sell(section)


class ChanceGuard(Guard):
    """Right, but what it sends is chance."""

    name = "chance"
    promise = Promise.EXACT
    description = "Looks at the stock first, or does not."

    def buy(self, purchase: Purchase) -> Receipt:
        if now_ns() // 1000 % 2:
            self.shop.sale.client.get(self.shop.sale.keys_of[purchase.item].stock)
        with purchase.critical_section() as section:
            return self.stock(purchase.item).sell(section)


class LeakGuard(Guard):
    """Takes the mutex, and never gives it back."""

    name = "leak"
    promise = Promise.EXACT
    description = "An etcd mutex that is not released."

    def buy(self, purchase: Purchase) -> Receipt:
        hold = self.sessions.mutex(purchase.item).acquire(timeout=self.time_left(purchase))
        with purchase.critical_section(hold) as section:
            return self.stock(purchase.item).sell(section)


class PipelineGuard(Guard):
    """Asks and decreases in a pipeline that is no transaction: another purchase may come between."""

    name = "pipeline"
    promise = Promise.EXACT
    description = "GET and DECR in one pipeline."

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


class ClockQueueGuard(Guard):
    """The first by its own clock is next: an earlier one may come when another is in."""

    name = "clock-queue"
    promise = Promise.EXACT
    description = "A sorted set of times."

    def buy(self, purchase: Purchase) -> Receipt:
        client, stock, queue = self.shop.sale.client, self.stock(purchase.item), f"{self.shop.sale.keys.prefix}queue"
        client.zadd(queue, {purchase.order: time.time()})
        while client.zrange(queue, 0, 0) != [purchase.order]:
            self.sessions.check_open()
            time.sleep(0.01)
        with purchase.critical_section() as section:
            reading = stock.read(section)
            receipt = reading.receipt or stock.write(section, reading)
        client.zrem(queue, purchase.order)
        return receipt


class Baton(Guard):
    """Right without a fault: a purchase waits in Redis for the one baton, and gives it back."""

    name = "baton"
    promise = Promise.EXACT
    description = "BLPOP, then RPUSH."

    def buy(self, purchase: Purchase) -> Receipt:
        client, prefix = self.shop.sale.client, self.shop.sale.keys.prefix
        if client.set(f"{prefix}made", 1, nx=True):
            client.rpush(f"{prefix}baton", 1)
        while client.blpop([f"{prefix}baton"], timeout=1) is None:
            self.sessions.check_open()
        with purchase.critical_section() as section:
            reading = self.stock(purchase.item).read(section)
            receipt = reading.receipt or self.stock(purchase.item).write(section, reading)
        client.rpush(f"{prefix}baton", 1)
        return receipt


class GrantedGuard(Guard):
    """Its lease, of which nobody but a local variable knows, may have ended before it is used."""

    name = "granted"
    promise = Promise.EXACT
    description = "A lease, then a key with it, in etcd."

    def buy(self, purchase: Purchase) -> Receipt:
        etcd = self.sessions.client
        lease = etcd.grant(5)
        etcd.put(f"granted/{purchase.buyer}", "", lease_id=lease.id)
        with purchase.critical_section() as section:
            return self.stock(purchase.item).sell(section)


class TicketGuard(Guard):
    """The ticket of a purchase that dies is never given back: all others are told that the item is sold."""

    name = "ticket"
    promise = Promise.EXACT
    description = "INCR, and DECR if there were too many."

    def buy(self, purchase: Purchase) -> Receipt:
        client, tickets = self.shop.sale.client, f"{self.shop.sale.keys.prefix}tickets"
        with purchase.critical_section() as section:
            if client.incr(tickets) <= int(client.get(self.shop.sale.keys.initial) or 0):
                return self.stock(purchase.item).sell(section)
            client.decr(tickets)
            return Receipt(Outcome.SOLD_OUT, self.name, stock=0)


class KeyQueue(Guard):
    """Right without a fault: the oldest of the keys, whose names are chance, is next."""

    name = "key-queue"
    promise = Promise.EXACT
    description = "Keys in etcd, and a look at all of them."

    def buy(self, purchase: Purchase) -> Receipt:
        etcd, key = self.sessions.client, f"key-queue/{purchase.order}"
        etcd.put(key, "", lease_id=self.sessions.session().lease_id)
        while min(etcd.get_prefix("key-queue/").keys, key=lambda each: each.create_revision).key != key:
            self.sessions.check_open()
            time.sleep(0.01)
        with purchase.critical_section() as section:
            reading = self.stock(purchase.item).read(section)
            receipt = reading.receipt or self.stock(purchase.item).write(section, reading)
        etcd.delete(key)
        return receipt


class TwoKeys(Guard):
    """Right until a pause: an attempt is several commands, and gives back what it has if that is not all."""

    name = "two-keys"
    promise = Promise.EXACT_UNTIL_PAUSED
    description = "SET NX of two keys, or of none."

    def buy(self, purchase: Purchase) -> Receipt:
        client, keys = self.shop.sale.client, [f"{self.shop.sale.keys.prefix}{name}" for name in ("one", "two")]
        while len(mine := [key for key in keys if client.set(key, purchase.order, nx=True, ex=60)]) < len(keys):
            client.delete(*mine or ["none"])
            self.sessions.check_open()
            time.sleep(0.01)
        with purchase.critical_section() as section:
            reading = self.stock(purchase.item).read(section)
            receipt = reading.receipt or self.stock(purchase.item).write(section, reading)
        client.delete(*keys)
        return receipt


GUARDS = (
    WriteFenceGuard, OneOrderGuard, SilentGuard, ChanceGuard, LeakGuard, PipelineGuard, ClockQueueGuard, Baton,
    GrantedGuard, TicketGuard, KeyQueue, TwoKeys,
)  # fmt: skip
FLAWED: dict[str, type[Guard]] = {guard.name: guard for guard in GUARDS}
