"""Everything, in any order: single faults that are done to a running sale, and undone."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from random import Random

from loadtest.faults.context import ScenarioContext
from loadtest.faults.scenario import Expected, Scenario
from loadtest.faults.testbed import Testbed
from loadtest.faults.testbed.shop import CHILD, TTL_S, Setup, Shop, leader_of
from loadtest.stack.process import ServerError
from loadtest.stack.proxy import ANSWERS, REQUESTS, Lines
from lock import LockError, Mutex, Session, connect

LONGEST_S = 1.75 * TTL_S
# What it is done to; there is one for each shop where that is named.
PROCESS, FRONT = "process of {shop}", "front of {shop}"
TO_ETCD, TO_REDIS = "line from {shop} to etcd", "line from {shop} to Redis"
Act = Callable[[Testbed, Shop], object]


@dataclass(frozen=True)
class Injection:
    """A fault that can be done to its target, and undone; `text` is what is said of it."""

    target: str
    text: str
    do: Act
    undo: Act


def _kill_leader(testbed: Testbed, _: Shop) -> None:
    if leader := leader_of(testbed.etcd):
        leader.kill()


def _kill_redis(testbed: Testbed, shop: Shop) -> None:
    nodes = testbed.redis.members
    nodes[testbed.shops.index(shop) % len(nodes)].kill()


def _lose(held_back: Lines) -> None:
    held_back.reset()
    held_back.resume()


class _Stranger:
    """Holds a lock below the sale's, unless etcd is unavailable just then."""

    def __init__(self) -> None:
        self._held = ExitStack()

    def come(self, testbed: Testbed, _: Shop) -> None:
        with suppress(LockError):
            client = self._held.enter_context(connect(testbed.etcd.endpoints))
            session = self._held.enter_context(Session(client, ttl=TTL_S, name="stranger"))
            self._held.enter_context(Mutex(session, CHILD).acquire(timeout=1))

    def go(self, *_: object) -> None:
        with suppress(LockError):
            self._held.close()


_stranger = _Stranger()

INJECTIONS = (
    Injection(
        PROCESS, "{shop} is frozen", lambda _, shop: shop.instance.pause(), lambda _, shop: shop.instance.resume()
    ),
    Injection(PROCESS, "{shop} is dead", lambda _, shop: shop.instance.kill(), lambda _, shop: shop.instance.launch()),
    Injection(
        TO_ETCD,
        "{shop} hears nothing from etcd",
        lambda _, shop: shop.to_etcd.stall(),
        lambda _, shop: shop.to_etcd.resume(),
    ),
    Injection(
        TO_ETCD,
        "{shop} cannot connect to etcd",
        lambda _, shop: shop.to_etcd.refuse(),
        lambda _, shop: shop.to_etcd.start(),
    ),
    Injection(
        TO_ETCD,
        "etcd is slow for {shop}",
        lambda _, shop: shop.to_etcd.slow_down(0.025, 0.225),
        lambda _, shop: shop.to_etcd.slow_down(0, 0),
    ),
    Injection(
        TO_REDIS,
        "what {shop} sends to Redis is late",
        lambda _, shop: shop.to_redis.stall(REQUESTS),
        lambda _, shop: shop.to_redis.resume(),
    ),
    # Redis does what the shop asks.
    Injection(
        TO_REDIS,
        "Redis's answers to {shop} are lost",
        lambda _, shop: shop.to_redis.stall(ANSWERS),
        lambda _, shop: _lose(shop.to_redis),
    ),
    Injection(
        FRONT,
        "{shop}'s answers to its buyers are lost",
        lambda _, shop: shop.front.stall(ANSWERS),
        lambda _, shop: _lose(shop.front),
    ),
    Injection(
        "etcd", "etcd is unavailable", lambda testbed, _: testbed.etcd.stop(), lambda testbed, _: testbed.etcd.start()
    ),
    Injection("etcd", "etcd's leader is dead", _kill_leader, lambda testbed, _: testbed.etcd.start()),
    Injection("Redis", "a node of Redis is dead", _kill_redis, lambda testbed, _: testbed.redis.start()),
    Injection("name", "a stranger holds a lock below the sale's", _stranger.come, _stranger.go),
)


@dataclass(frozen=True)
class PlannedInjection:
    """An injection with its time; seconds from the start of the plan. Of one target, there is one at a time."""

    injection: Injection
    shop: int
    begins: float
    lasts: float

    @property
    def target(self) -> str:
        return self.injection.target.format(shop=self.shop)


def plan(random: Random) -> list[PlannedInjection]:
    """One to four disturbances that may overlap, each of another target."""
    chosen: dict[str, PlannedInjection] = {}
    for _ in range(random.randint(1, 4)):
        each = PlannedInjection(
            injection=random.choice(INJECTIONS),
            shop=random.randrange(2),
            begins=random.uniform(0.0, 2.0),
            lasts=random.uniform(0.05, LONGEST_S),
        )
        chosen.setdefault(each.target, each)
    return sorted(chosen.values(), key=lambda each: each.begins)


def inject(context: ScenarioContext, planned: list[PlannedInjection]) -> None:
    """Disturb the sale as planned; returns when all is over."""
    threads = [context.threads.start(each.target, partial(_disturb, context, each)) for each in planned]
    for thread in threads:
        thread.join()
    context.threads.check()


def _disturb(context: ScenarioContext, planned: PlannedInjection) -> None:
    time.sleep(planned.begins)
    shop = context.shops[planned.shop]
    what = planned.injection.text.format(shop=shop.name)
    try:
        planned.injection.do(context.testbed, shop)
        context.announce(f"{what}, for {planned.lasts:.1f} s")
        time.sleep(planned.lasts)
        planned.injection.undo(context.testbed, shop)
    except (ServerError, OSError) as error:
        context.require(False, f"{what}: {error}")


class RandomSequence(Scenario):
    """Sale after sale, each with up to four disturbances of random kind, time and length, which may overlap.

    The seed decides what is done and when; what a process is doing at that moment, it does not.
    """

    name = "random"
    what = "sale after sale, each with up to four random disturbances that may overlap, for --seconds"
    setup = Setup(lines=True, members=3)
    unfenced = Expected.EITHER

    def __init__(self, random: Random) -> None:
        self._random = random

    def play(self, context: ScenarioContext) -> None:
        inject(context, plan(self._random))


class RandomOpening(RandomSequence):
    """The same while the instances elect a leader, and it opens the sale."""

    name = "random-opening"
    what = "the same around a scheduled opening"
    opens_in_s = 2
