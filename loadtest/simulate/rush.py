"""One rush: all buyers click at once, each once, and the threads of the instances serve them as the guard does."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil, inf
from typing import Any

import simpy

from loadtest.simulate.costs import Costs
from loadtest.simulate.machine import (
    CANCELLED,
    LOCK_TIMEOUT,
    TURN,
    CommitLog,
    CommitQueue,
    Cpus,
    LockQueue,
    Program,
    Steps,
    Ticket,
    happen,
)

SOLD, SOLD_OUT, BUSY = "sold", "sold_out", "busy"
_COMPANY_S = 0.005  # for which the deletion of a key waits for others, where the lock has gone on without it
_MOST_DELETIONS = 64
_READ_AT_ONCE = 10  # clicks that the main thread reads before another thread has its turn
_ARRIVALS = 5_000  # of more clicks, some arrive together


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


class SimulatedShard:
    """What an instance knows of one: which of its clicks wait there, and whether it was empty when last asked."""

    def __init__(self, rush: SimulatedRush, number: int) -> None:
        self.number, self.empty = number, False
        self.queue, self.brought = CommitQueue(int(rush.costs.settings["group"])), rush.env.event()
        self._env = rush.env

    def bring(self) -> None:
        """Wake the click that waits for items."""
        self.brought, brought = self._env.event(), self.brought
        brought.succeed()


class SimulatedInstance:
    """One Flask server.

    Attributes:
        arrived: clicks that the main thread has not read yet; clicks: those that wait for another thread;
            in_hand: these and the ones that have a thread.
        known: when the look was sent that has found, under the lock, that all is sold.
        trying, lock, shards, filling, commits, cohort: what the guards keep here.
    """

    def __init__(self, rush: SimulatedRush, number: int) -> None:
        self.rush, self.number = rush, number
        self.process = Program(rush.env, rush.cpus)
        self.arrived = self.clicks = self.in_hand = self.trying = 0
        self.awake = rush.env.event()
        self.idle: list[simpy.Event] = []
        self.known: float | None = None
        self.lock, self.filling = simpy.Resource(rush.env), False
        self.shards = [SimulatedShard(rush, number) for number in range(len(rush.shards))]
        self.commits = CommitQueue(int(rush.costs.settings["group"]))
        self.cohort: Any = None
        self._waiting: list[Ticket] = []
        self._seen = 0
        self._deletions: list[tuple[Ticket, simpy.Event]] = []
        self._added, self._urgent = rush.env.event(), rush.env.event()
        rush.env.process(self._delete())

    def run(self, seconds: float) -> simpy.Event:
        """A step, and the watch messages that have come since the last one."""
        new, self._seen = self.rush.rpcs - self._seen, self.rush.rpcs
        return self.process.run(seconds + new * self.rush.costs.event)

    def trip(self, look: Callable[[], Any] = lambda: None, node: int = 0) -> Steps:
        """To a node of Redis and back; what `look` has found there."""
        rush, own = self.rush, self.rush.costs.trip / 2
        rush.trips += 1
        yield self.run(own)
        yield from rush.travel()
        yield rush.redis[node % len(rush.redis)].run(rush.costs.redis_trip)
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
        return self.await_turn(Ticket(self.rush.env, self), began)

    def await_turn(self, ticket: Ticket, began: float) -> Ticket:
        """End the wait when the click has waited for as long as it may."""
        self._waiting.append(ticket)
        left = began + self.rush.costs.settings["lock_timeout_s"] - self.rush.env.now
        self.rush.env.timeout(max(left, 0.0)).callbacks.append(lambda _: ticket.end(LOCK_TIMEOUT))
        return ticket

    def queue(self, ticket: Ticket) -> Steps:
        """Write the key and wait; how the wait ended."""
        yield from self.rpc(partial(self.rush.queue.join, ticket))
        return (yield ticket.turn)

    def delete(self, ticket: Ticket, *, urgent: bool = True) -> simpy.Event:
        """Happens when the key is gone."""
        gone = self.rush.env.event()
        self._deletions.append((ticket, gone))
        happen(self._added)
        if urgent:
            happen(self._urgent)
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

    def told(self, began: float) -> Steps:
        """The sold-out check: whether a click that began then is told so without the lock."""
        if self.known is not None and began >= self.known:
            asked = self.rush.env.now
            yield from self.trip()
            self.known = asked
        return self.known is not None

    def cancel(self) -> None:
        """Wake the threads that wait in vain."""
        waiting, self._waiting = self._waiting, []
        for ticket in waiting:
            ticket.end(CANCELLED)


Buy = Callable[[SimulatedInstance, float], Steps]


class SimulatedRush:
    """The world of one setting; `answers` has time, clicks and outcome."""

    def __init__(self, costs: Costs, setting: Setting, buy: Buy) -> None:
        self.costs, self.setting = costs, setting
        self.env = env = simpy.Environment()
        self.random = random.Random(1)
        self.stock, self.version, self.locked = setting.stock, 0, False
        self.trips = self.rpcs = 0
        self.answers: list[tuple[float, int, str]] = []
        self.cpus = None if setting.apart else Cpus(env, costs.cpus)
        self.shards = [0] * int(costs.settings["shards"])
        nodes = len(self.shards) if setting.apart and setting.guard == "etcd-sharded" else 1
        self.redis = [Program(env, self.cpus, wake=costs.redis_wake) for _ in range(nodes)]
        self.buyers = Program(env, self.cpus)
        self.etcd = Program(env, self.cpus, threads=costs.cpus, wake=costs.etcd_wake)
        self.log = CommitLog(env, costs.sync + setting.rtt_s)
        self.queue = LockQueue(lambda ticket: env.process(self._tell(ticket)))
        self.instances = [SimulatedInstance(self, number) for number in range(setting.instances)]
        self._buy = buy
        self._left = setting.buyers
        self._over = env.event()

    def run(self) -> None:
        """Until the last answer, or the horizon."""
        setting, clicks = self.setting, ceil(self.setting.buyers / len(self.instances))
        for instance in self.instances:
            self.env.process(self._main_thread(instance))
            for _ in range(min(int(self.costs.settings["threads"]), clicks)):
                self.env.process(self._thread(instance))
        together = ceil(setting.buyers / _ARRIVALS) if setting.apart else 1
        for number, first in enumerate(range(0, setting.buyers, together)):
            clicks = min(together, setting.buyers - first)
            self._at_buyer(partial(self._clicked, self.instances[number % len(self.instances)], clicks))
        self.env.run(self._over | self.env.timeout(setting.horizon_s))

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

    def take_lock(self) -> bool:
        """Lock; whether it was locked before."""
        before, self.locked = self.locked, True
        return before

    def sell_if(self, version: int) -> bool:
        """Sell unless the stock was touched since that version."""
        return self.version == version and self.sell() == SOLD

    def write(self, read: int) -> None:
        """Take a piece of what was read."""
        self.stock, self.version = read - 1, self.version + 1

    def _tell(self, ticket: Ticket) -> Steps:
        yield from self.travel()
        yield ticket.owner.run(0.0)
        ticket.end(TURN)

    def _at_buyer(self, then: Callable[..., None]) -> None:
        """Do it after the buyer's half of a click, or at once if the buyers have machines."""
        if self.setting.apart:
            then()
        else:
            self.buyers.run(self.costs.buyer / 2).callbacks.append(then)

    def _clicked(self, instance: SimulatedInstance, clicks: int, _: object = None) -> None:
        instance.arrived += clicks
        happen(instance.awake)

    def _main_thread(self, instance: SimulatedInstance) -> Steps:
        """Read clicks, some at a time; those for which there is no room are answered at once."""
        while True:
            yield instance.awake
            clicks = min(instance.arrived, _READ_AT_ONCE)
            instance.arrived -= clicks
            if not instance.arrived:
                instance.awake = self.env.event()
            yield instance.run(clicks * self.costs.busy)
            room = min(clicks, max(int(self.costs.settings["queue"]) - instance.in_hand, 0))
            instance.in_hand += room
            instance.clicks += room
            for _idle in range(min(room, len(instance.idle))):
                instance.idle.pop().succeed()
            if refused := clicks - room:
                self._answered(refused, BUSY)

    def _thread(self, instance: SimulatedInstance) -> Steps:
        told, sold = (cost[self.setting.guard] for cost in (self.costs.told, self.costs.sold))
        while True:
            while not instance.clicks:
                instance.idle.append(self.env.event())
                yield instance.idle[-1]
            instance.clicks -= 1
            began = self.env.now
            yield instance.run(told / 2)
            outcome = yield from self._buy(instance, began)
            yield instance.run(max(told / 2 + (sold - told if outcome == SOLD else 0.0), 0.0))
            instance.in_hand -= 1
            self._at_buyer(partial(self._answered, 1, outcome))

    def _answered(self, clicks: int, outcome: str, _: object = None) -> None:
        self.answers.append((self.env.now, clicks, outcome))
        self._left -= clicks
        if not self._left:
            self._over.succeed()
