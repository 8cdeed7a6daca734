"""Single faults that can be done to a running sale, and undone, in any order: what `random` is made of."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random

from loadtest.faults.context import ScenarioContext
from loadtest.faults.testbed.protocols import CHILD, TTL_S, Shop, leader_of
from loadtest.stack.process import ServerError
from loadtest.stack.proxy import ANSWERS, REQUESTS
from lock import LockError, Mutex, Session, connect

LONGEST_S = 1.75 * TTL_S


@contextmanager
def frozen(context: ScenarioContext, shop: Shop) -> Iterator[None]:
    """The shop stands still."""
    shop.instance.pause()
    yield
    shop.instance.resume()


@contextmanager
def dead(context: ScenarioContext, shop: Shop) -> Iterator[None]:
    """The shop is killed, and started again."""
    shop.instance.kill()
    yield
    shop.instance.launch()


@contextmanager
def deaf_to_etcd(context: ScenarioContext, shop: Shop) -> Iterator[None]:
    """The shop hears nothing from etcd."""
    for line in shop.etcd_lines:
        line.stall()
    yield
    for line in shop.etcd_lines:
        line.resume()


@contextmanager
def refused_by_etcd(context: ScenarioContext, shop: Shop) -> Iterator[None]:
    """The shop cannot connect to etcd."""
    for line in shop.etcd_lines:
        line.refuse()
    yield
    for line in shop.etcd_lines:
        line.start()


@contextmanager
def far_from_etcd(context: ScenarioContext, shop: Shop) -> Iterator[None]:
    """etcd is slow for the shop."""
    for line in shop.etcd_lines:
        line.delay_s, line.jitter_s = 0.025, 0.225
    yield
    for line in shop.etcd_lines:
        line.delay_s = line.jitter_s = 0.0


@contextmanager
def late_to_redis(context: ScenarioContext, shop: Shop) -> Iterator[None]:
    """What the shop sends to Redis is held back, and delivered later."""
    shop.redis_line.stall(REQUESTS)
    yield
    shop.redis_line.resume()


@contextmanager
def unanswered_by_redis(context: ScenarioContext, shop: Shop) -> Iterator[None]:
    """Redis does what the shop asks, and its answers are lost."""
    shop.redis_line.stall(ANSWERS)
    yield
    shop.redis_line.reset()
    shop.redis_line.resume()


@contextmanager
def mute(context: ScenarioContext, shop: Shop) -> Iterator[None]:
    """The shop's answers to its buyers are lost."""
    shop.front.stall(ANSWERS)
    yield
    shop.front.reset()
    shop.front.resume()


@contextmanager
def without_etcd(context: ScenarioContext, shop: Shop) -> Iterator[None]:
    """All of etcd is away."""
    context.testbed.etcd.stop()
    yield
    context.testbed.etcd.start()


@contextmanager
def without_leader(context: ScenarioContext, shop: Shop) -> Iterator[None]:
    """The leader of etcd is killed."""
    leader = leader_of(context.testbed.etcd)
    if leader is not None:
        leader.kill()
    yield
    if leader is not None:
        leader.start()


@contextmanager
def without_redis(context: ScenarioContext, shop: Shop) -> Iterator[None]:
    """Redis is killed."""
    context.testbed.redis.kill()
    yield
    context.testbed.redis.start()


@contextmanager
def behind_a_stranger(context: ScenarioContext, shop: Shop) -> Iterator[None]:
    """A stranger holds a lock below the sale's."""
    with contextlib.ExitStack() as held:
        held.enter_context(contextlib.suppress(LockError))  # etcd may be away when it is given back
        with contextlib.suppress(LockError):  # or when it is asked for
            client = held.enter_context(connect(context.testbed.etcd.endpoints))
            session = held.enter_context(Session(client, ttl=TTL_S, name="stranger"))
            held.enter_context(Mutex(session, CHILD).acquire(timeout=1))
        yield


Injection = Callable[[ScenarioContext, Shop], AbstractContextManager[None]]

# What each is done to, of which there is one for each shop where that is named; and what is said of it.
KINDS: dict[Injection, tuple[str, str]] = {
    frozen: ("process of {shop}", "{shop} is frozen"),
    dead: ("process of {shop}", "{shop} is dead"),
    deaf_to_etcd: ("line from {shop} to etcd", "{shop} hears nothing from etcd"),
    refused_by_etcd: ("line from {shop} to etcd", "{shop} cannot connect to etcd"),
    far_from_etcd: ("line from {shop} to etcd", "etcd is slow for {shop}"),
    late_to_redis: ("line from {shop} to Redis", "what {shop} sends to Redis is late"),
    unanswered_by_redis: ("line from {shop} to Redis", "Redis's answers to {shop} are lost"),
    mute: ("front of {shop}", "{shop}'s answers to its buyers are lost"),
    without_etcd: ("etcd", "etcd is away"),
    without_leader: ("etcd", "etcd's leader is dead"),
    without_redis: ("Redis", "Redis is dead"),
    behind_a_stranger: ("name", "a stranger holds a lock below the sale's"),
}


@dataclass(frozen=True)
class PlannedInjection:
    """A injection with its time; seconds from the start of the plan. Of one target, there is one at a time."""

    injection: Injection
    shop: int
    begins: float
    lasts: float

    @property
    def target(self) -> str:
        return KINDS[self.injection][0].format(shop=self.shop)


def plan(random: Random) -> list[PlannedInjection]:
    """One to four disturbances that may overlap, each of another target."""
    chosen: dict[str, PlannedInjection] = {}
    for _ in range(random.randint(1, 4)):
        each = PlannedInjection(
            injection=random.choice(list(KINDS)),
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
    what = KINDS[planned.injection][1].format(shop=shop.name)
    try:
        with planned.injection(context, shop):
            context.announce(f"{what}, for {planned.lasts:.1f} s")
            time.sleep(planned.lasts)
    except (ServerError, OSError) as error:
        context.require(False, f"{what}: {error}")
