"""Single faults that can be done to a running sale, and undone, in any order: what `random` is made of."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from random import Random

from loadtest.faults.context import Act
from loadtest.faults.testbed.protocols import CHILD, TTL_S, Shop, leader_of
from loadtest.stack.process import ServerError
from loadtest.stack.proxy import ANSWERS, REQUESTS
from lock import LockError, Mutex, Session, connect

LONGEST_S = 1.75 * TTL_S


@contextmanager
def frozen(act: Act, shop: Shop) -> Iterator[None]:
    """The shop stands still."""
    shop.instance.pause()
    yield
    shop.instance.resume()


@contextmanager
def dead(act: Act, shop: Shop) -> Iterator[None]:
    """The shop is killed, and started again."""
    shop.instance.kill()
    yield
    shop.instance.launch()


@contextmanager
def deaf_to_etcd(act: Act, shop: Shop) -> Iterator[None]:
    """The shop hears nothing from etcd."""
    for line in shop.etcd_lines:
        line.stall()
    yield
    for line in shop.etcd_lines:
        line.resume()


@contextmanager
def refused_by_etcd(act: Act, shop: Shop) -> Iterator[None]:
    """The shop cannot connect to etcd."""
    for line in shop.etcd_lines:
        line.refuse()
    yield
    for line in shop.etcd_lines:
        line.start()


@contextmanager
def far_from_etcd(act: Act, shop: Shop) -> Iterator[None]:
    """etcd is slow for the shop."""
    for line in shop.etcd_lines:
        line.delay_s, line.jitter_s = 0.025, 0.225
    yield
    for line in shop.etcd_lines:
        line.delay_s = line.jitter_s = 0.0


@contextmanager
def late_to_redis(act: Act, shop: Shop) -> Iterator[None]:
    """What the shop sends to Redis is held back, and delivered later."""
    shop.redis_line.stall(REQUESTS)
    yield
    shop.redis_line.resume()


@contextmanager
def unanswered_by_redis(act: Act, shop: Shop) -> Iterator[None]:
    """Redis does what the shop asks, and its answers are lost."""
    shop.redis_line.stall(ANSWERS)
    yield
    shop.redis_line.reset()
    shop.redis_line.resume()


@contextmanager
def mute(act: Act, shop: Shop) -> Iterator[None]:
    """The shop's answers to its buyers are lost."""
    shop.front.stall(ANSWERS)
    yield
    shop.front.reset()
    shop.front.resume()


@contextmanager
def without_etcd(act: Act, shop: Shop) -> Iterator[None]:
    """All of etcd is away."""
    act.arena.etcd.stop()
    yield
    act.arena.etcd.start()


@contextmanager
def without_leader(act: Act, shop: Shop) -> Iterator[None]:
    """The leader of etcd is killed."""
    leader = leader_of(act.arena.etcd)
    if leader is not None:
        leader.kill()
    yield
    if leader is not None:
        leader.start()


@contextmanager
def without_redis(act: Act, shop: Shop) -> Iterator[None]:
    """Redis is killed."""
    act.arena.redis.kill()
    yield
    act.arena.redis.start()


@contextmanager
def behind_a_stranger(act: Act, shop: Shop) -> Iterator[None]:
    """A stranger holds a lock below the sale's."""
    with contextlib.ExitStack() as held:
        held.enter_context(contextlib.suppress(LockError))  # etcd may be away when it is given back
        with contextlib.suppress(LockError):  # or when it is asked for
            client = held.enter_context(connect(act.arena.etcd.endpoints))
            session = held.enter_context(Session(client, ttl=TTL_S, name="stranger"))
            held.enter_context(Mutex(session, CHILD).acquire(timeout=1))
        yield


Disturbance = Callable[[Act, Shop], AbstractContextManager[None]]

# What each is done to, of which there is one for each shop where that is named; and what is said of it.
KINDS: dict[Disturbance, tuple[str, str]] = {
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
class Planned:
    """A disturbance with its time; seconds from the start of the plan. Of one target, there is one at a time."""

    disturbance: Disturbance
    shop: int
    begins: float
    lasts: float

    @property
    def target(self) -> str:
        return KINDS[self.disturbance][0].format(shop=self.shop)


def plan(random: Random) -> list[Planned]:
    """One to four disturbances that may overlap, each of another target."""
    chosen: dict[str, Planned] = {}
    for _ in range(random.randint(1, 4)):
        each = Planned(
            disturbance=random.choice(list(KINDS)),
            shop=random.randrange(2),
            begins=random.uniform(0.0, 2.0),
            lasts=random.uniform(0.05, LONGEST_S),
        )
        chosen.setdefault(each.target, each)
    return sorted(chosen.values(), key=lambda each: each.begins)


def carry_out(act: Act, planned: list[Planned]) -> None:
    """Disturb the sale as planned; returns when all is over."""
    threads = [threading.Thread(target=_disturb, args=(act, each), daemon=True) for each in planned]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _disturb(act: Act, planned: Planned) -> None:
    time.sleep(planned.begins)
    shop = act.shops[planned.shop]
    what = KINDS[planned.disturbance][1].format(shop=shop.name)
    try:
        with planned.disturbance(act, shop):
            act.say(f"{what}, for {planned.lasts:.1f} s")
            time.sleep(planned.lasts)
    except (ServerError, OSError) as error:
        act.insist(False, f"{what}: {error}")
