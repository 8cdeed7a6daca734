"""Single faults that can be done to a running sale, and undone, in any order: what `random` is made of."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from random import Random

from loadtest.faults.context import ScenarioContext
from loadtest.faults.testbed.shop import CHILD, TTL_S, Shop, leader_of
from loadtest.stack.process import ServerError
from loadtest.stack.proxy import ANSWERS, REQUESTS, Lines
from lock import LockError, Mutex, Session, connect

LONGEST_S = 1.75 * TTL_S
Faulty = Callable[[ScenarioContext, Shop], AbstractContextManager[None]]
Steps = Iterable[Callable[[], object]]


@dataclass(frozen=True)
class Injection:
    """A fault that can be done to one shop, or to all, and undone.

    Attributes:
        target: what it is done to; there is one for each shop where that is named.
        text: what is said of it.
        faulty: a context in which it is so.
    """

    target: str
    text: str
    faulty: Faulty


def _done(steps: Callable[[ScenarioContext, Shop], tuple[Steps, Steps]]) -> Faulty:
    """What is done, and what undoes it."""

    @contextmanager
    def faulty(context: ScenarioContext, shop: Shop) -> Iterator[None]:
        do, undo = steps(context, shop)
        for step in do:
            step()
        yield
        for step in undo:
            step()

    return faulty


_frozen = _done(lambda _, shop: ([shop.instance.pause], [shop.instance.resume]))
_dead = _done(lambda _, shop: ([shop.instance.kill], [shop.instance.launch]))
_deaf_to_etcd = _done(lambda _, shop: ([shop.to_etcd.stall], [shop.to_etcd.resume]))
_refused_by_etcd = _done(lambda _, shop: ([shop.to_etcd.refuse], [shop.to_etcd.start]))
_far_from_etcd = _done(
    lambda _, shop: ([partial(shop.to_etcd.slow_down, 0.025, 0.225)], [partial(shop.to_etcd.slow_down, 0, 0)])
)
_late_to_redis = _done(lambda _, shop: ([partial(shop.to_redis.stall, REQUESTS)], [shop.to_redis.resume]))
# Redis does what the shop asks.
_unanswered_by_redis = _done(lambda _, shop: ([partial(shop.to_redis.stall, ANSWERS)], _mended(shop.to_redis)))
_mute = _done(lambda _, shop: ([partial(shop.front.stall, ANSWERS)], _mended(shop.front)))
_without_etcd = _done(lambda context, _: ([context.testbed.etcd.stop], [context.testbed.etcd.start]))


def _mended(lines: Lines) -> Steps:
    return lines.reset, lines.resume


def _without_redis(context: ScenarioContext, shop: Shop) -> AbstractContextManager[None]:
    nodes = context.testbed.redis.members
    node = nodes[context.shops.index(shop) % len(nodes)]
    return _done(lambda *_: ([node.kill], [node.start]))(context, shop)


def _without_leader(context: ScenarioContext, shop: Shop) -> AbstractContextManager[None]:
    leader = leader_of(context.testbed.etcd)
    return _done(lambda *_: ([leader.kill], [leader.start]))(context, shop) if leader else nullcontext()


@contextmanager
def _behind_a_stranger(context: ScenarioContext, shop: Shop) -> Iterator[None]:
    """A stranger holds a lock below the sale's."""
    with contextlib.ExitStack() as held:
        held.enter_context(contextlib.suppress(LockError))  # etcd may be away when it is given back
        with contextlib.suppress(LockError):  # or when it is asked for
            client = held.enter_context(connect(context.testbed.etcd.endpoints))
            session = held.enter_context(Session(client, ttl=TTL_S, name="stranger"))
            held.enter_context(Mutex(session, CHILD).acquire(timeout=1))
        yield


INJECTIONS = (
    Injection("process of {shop}", "{shop} is frozen", _frozen),
    Injection("process of {shop}", "{shop} is dead", _dead),
    Injection("line from {shop} to etcd", "{shop} hears nothing from etcd", _deaf_to_etcd),
    Injection("line from {shop} to etcd", "{shop} cannot connect to etcd", _refused_by_etcd),
    Injection("line from {shop} to etcd", "etcd is slow for {shop}", _far_from_etcd),
    Injection("line from {shop} to Redis", "what {shop} sends to Redis is late", _late_to_redis),
    Injection("line from {shop} to Redis", "Redis's answers to {shop} are lost", _unanswered_by_redis),
    Injection("front of {shop}", "{shop}'s answers to its buyers are lost", _mute),
    Injection("etcd", "etcd is unavailable", _without_etcd),
    Injection("etcd", "etcd's leader is dead", _without_leader),
    Injection("Redis", "a node of Redis is dead", _without_redis),
    Injection("name", "a stranger holds a lock below the sale's", _behind_a_stranger),
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
        with planned.injection.faulty(context, shop):
            context.announce(f"{what}, for {planned.lasts:.1f} s")
            time.sleep(planned.lasts)
    except (ServerError, OSError) as error:
        context.require(False, f"{what}: {error}")
