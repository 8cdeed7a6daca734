"""One rush: all buyers click at once, each once, and the threads of the instances serve them as the guard does."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import ceil, inf
from typing import Any

import simpy

from loadtest.simulate.costs import Costs
from loadtest.simulate.machine import CANCELLED, TIMED_OUT, TURN, CommitLog, LockQueue, Program, Steps, Ticket

SOLD, SOLD_OUT, LOCK_TIMEOUT, BUSY = "sold", "sold_out", "lock_timeout", "busy"
_COMPANY_S = 0.005  # for which the deletion of a key waits for others, where the lock has gone on without it
_MOST_DELETIONS = 64
_SINGLE = 5_000  # clicks; of more, some that are told the same go through an instance together
_SWEEP_S = 0.1  # how late a wait may end whose time is up


@dataclass(frozen=True)
class Setting:
    """What is foreseen.

    Attributes:
        apart: whether the buyers, each instance, etcd and each node of Redis have machines; `etcd-sharded` has a node
            for each shard then.
        rtt_s: of a round trip between them, and between the members of etcd.
        horizon_s: after which nothing more is foreseen.
    """

    guard: str
    buyers: int
    stock: int
    instances: int
    apart: bool = False
    rtt_s: float = 0.0
    horizon_s: float = inf


class SimulatedInstance:
    """One Flask server.

    Attributes:
        clicks: that wait for a thread; in_hand: those and the ones that have a thread.
        known: when the look was sent that has found, under the lock, that all is sold.
        state: what the guard keeps here.
    """

    def __init__(self, rush: SimulatedRush, number: int) -> None:
        self.rush, self.number = rush, number
        self.process = Program(rush.env, rush.cpus)
        self.clicks = self.in_hand = 0
        self.idle: list[simpy.Event] = []
        self.known: float | None = None
        self.waiting: list[Ticket] = []
        self.state: dict[str, Any] = {}
        self._seen = 0
        self._deletions: list[tuple[Ticket, simpy.Event]] = []
        self._added, self._urgent = rush.env.event(), rush.env.event()
        rush.env.process(self._delete())

    def run(self, seconds: float) -> simpy.Event:
        """A step, and the watch messages that have come since the last one."""
        new, self._seen = self.rush.rpcs - self._seen, self.rush.rpcs
        return self.process.run(seconds + new * self.rush.costs.event)

    def trip(self, look: Callable[[], Any], clicks: int = 1, node: int = 0) -> Steps:
        """To a node of Redis and back for so many clicks alike; what `look` has found there."""
        rush, own = self.rush, self.rush.costs.trip * clicks / 2
        rush.trips += clicks
        yield self.run(own)
        yield from rush.travel()
        yield rush.redis[node % len(rush.redis)].run(rush.costs.redis_trip * clicks)
        found = look()
        yield from rush.travel()
        yield self.run(own)
        return found

    def rpc(self, change: Callable[[], object]) -> Steps:
        """To etcd and back."""
        rush, own = self.rush, self.rush.costs.rpc / 2
        rush.rpcs += 1
        yield self.run(own)
        yield from rush.travel()
        yield rush.etcd.run(rush.costs.etcd_rpc + len(rush.instances) * rush.costs.etcd_event)
        yield rush.log.commit(self.number, change)
        yield from rush.travel()
        yield self.run(own)

    def ticket(self, began: float) -> Ticket:
        """A place for a click that began then."""
        ticket = Ticket(self.rush.env, self)
        self.waiting.append(ticket)
        deadline = began + self.rush.costs.settings["lock_timeout_s"]
        heappush(self.rush.expiring, (deadline, next(self.rush.order), ticket))
        return ticket

    def queue(self, ticket: Ticket) -> Steps:
        """Write the key and wait; how the wait ended."""
        yield from self.rpc(partial(self.rush.queue.join, ticket))
        return (yield ticket.turn)

    def delete(self, ticket: Ticket, *, urgent: bool = True) -> simpy.Event:
        """Happens when the key is gone."""
        gone = self.rush.env.event()
        self._deletions.append((ticket, gone))
        for event in (self._added, self._urgent)[: 1 + urgent]:
            if not event.triggered:
                event.succeed()
        return gone

    def _delete(self) -> Steps:
        env = self.rush.env
        while True:
            if not self._deletions:
                yield self._added
            if not self._urgent.triggered:
                yield self._urgent | env.timeout(_COMPANY_S)
            self._added, self._urgent = env.event(), env.event()
            group, self._deletions = self._deletions[:_MOST_DELETIONS], self._deletions[_MOST_DELETIONS:]
            yield from self.rpc(partial(self.rush.queue.leave, [ticket for ticket, _ in group]))
            for _, gone in group:
                gone.succeed()

    def told(self, began: float, clicks: int) -> Steps:
        """The sold-out check: whether clicks that began then are told so without the lock."""
        if self.known is not None and began >= self.known:
            asked = self.rush.env.now
            yield from self.trip(lambda: None, clicks)
            self.known = asked
        return self.known is not None

    def cancel(self) -> None:
        """Wake the threads that wait in vain."""
        waiting, self.waiting = self.waiting, []
        for ticket in waiting:
            ticket.end(CANCELLED)


Buy = Callable[[SimulatedInstance, float, int], Steps]


class SimulatedRush:
    """The world of one setting; `answers` has time, clicks and outcome."""

    def __init__(self, costs: Costs, setting: Setting, buy: Buy, seed: int = 1) -> None:
        self.costs, self.setting = costs, setting
        self.env = env = simpy.Environment()
        self.random = random.Random(seed)
        self.stock, self.version, self.locked = setting.stock, 0, False
        self.trips = self.rpcs = 0
        self.answers: list[tuple[float, int, str]] = []
        self.expiring: list[tuple[float, int, Ticket]] = []
        self.order = count()
        self.cpus = None if setting.apart else simpy.Resource(env, costs.cpus)
        self.shards = [0] * int(costs.settings["shards"])
        nodes = len(self.shards) if setting.apart and setting.guard == "etcd-sharded" else 1
        self.redis = [Program(env, self.cpus) for _ in range(nodes)]
        self.buyers = Program(env, self.cpus)
        self.etcd = Program(env, self.cpus, threads=costs.cpus)
        self.log = CommitLog(env, costs.sync + setting.rtt_s)
        self.queue = LockQueue(lambda ticket: env.process(self._tell(ticket)))
        self.instances = [SimulatedInstance(self, number) for number in range(setting.instances)]
        self._buy = buy
        self._left = setting.buyers
        self._lot = ceil(setting.buyers / _SINGLE)
        self._over = env.event()

    def run(self) -> None:
        """Until the last answer, or the horizon."""
        clicks = ceil(self.setting.buyers / len(self.instances))
        for instance in self.instances:
            for _ in range(min(int(self.costs.settings["threads"]), clicks)):
                self.env.process(self._thread(instance))
        lot = self._lot if self.setting.apart else 1
        for number, first in enumerate(range(0, self.setting.buyers, lot)):
            instance, clicks = self.instances[number % len(self.instances)], min(lot, self.setting.buyers - first)
            if self.setting.apart:
                self._clicked(instance, clicks)
            else:
                self.buyers.run(self.costs.buyer / 2).callbacks.append(partial(self._clicked, instance, clicks))
        self.env.process(self._sweep())
        self.env.run(self._over)

    def travel(self) -> Steps:
        """One way over the network."""
        if self.setting.rtt_s:
            yield self.env.timeout(self.setting.rtt_s / 2)

    def sell(self) -> str:
        """A piece, if one is left; what Redis does in one step."""
        if self.stock <= 0:
            return SOLD_OUT
        self.write(self.stock)
        return SOLD

    def sell_if(self, version: int) -> bool:
        """Sell unless the stock was touched since that version."""
        return self.version == version and self.sell() == SOLD

    def write(self, read: int) -> None:
        """Take a piece of what was read."""
        self.stock, self.version = read - 1, self.version + 1

    def _sweep(self) -> Steps:
        while self.env.now < self.setting.horizon_s:
            yield self.env.timeout(_SWEEP_S)
            while self.expiring and self.expiring[0][0] <= self.env.now:
                heappop(self.expiring)[2].end(TIMED_OUT)
        if not self._over.triggered:
            self._over.succeed()

    def _tell(self, ticket: Ticket) -> Steps:
        yield from self.travel()
        yield ticket.owner.run(0.0)
        ticket.end(TURN)

    def _clicked(self, instance: SimulatedInstance, clicks: int, _: object = None) -> None:
        room = min(clicks, max(int(self.costs.settings["queue"]) - instance.in_hand, 0))
        instance.in_hand += room
        instance.clicks += room
        for _idle in range(min(room, len(instance.idle))):
            instance.idle.pop().succeed()
        if refused := clicks - room:
            instance.run(refused * self.costs.busy).callbacks.append(partial(self._answered, refused, BUSY))

    def _thread(self, instance: SimulatedInstance) -> Steps:
        told, sold = (cost[self.setting.guard] for cost in (self.costs.told, self.costs.sold))
        while True:
            while not instance.clicks:
                instance.idle.append(self.env.event())
                yield instance.idle[-1]
            clicks = min(instance.clicks, self._lot) if self._alike(instance) else 1
            instance.clicks -= clicks
            began = self.env.now
            yield instance.run(told * clicks / 2)
            outcome = yield from self._buy(instance, began, clicks)
            yield instance.run(max(told * clicks / 2 + (sold - told if outcome == SOLD else 0.0), 0.0))
            instance.in_hand -= clicks
            answered = partial(self._answered, clicks, outcome)
            if self.setting.apart:
                answered()
            else:
                self.buyers.run(self.costs.buyer / 2).callbacks.append(answered)

    def _alike(self, instance: SimulatedInstance) -> bool:
        """Whether the next clicks are all told the same, and wait for nothing but the instance and Redis."""
        known = instance.known is not None or not self.setting.guard.startswith("etcd")
        return self.stock <= 0 and known and self.setting.guard != "redis-lock"

    def _answered(self, clicks: int, outcome: str, _: object = None) -> None:
        self.answers.append((self.env.now, clicks, outcome))
        self._left -= clicks
        if not self._left and not self._over.triggered:
            self._over.succeed()
