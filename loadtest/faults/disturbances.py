"""Single faults that can be done to a running sale, and undone, in any order: what `random` is made of."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from random import Random

from loadtest.faults.act import Act
from loadtest.faults.arena import TTL_S, Shop
from loadtest.faults.scenarios.etcd_member import leader_of
from loadtest.faults.scenarios.nested_name import CHILD
from loadtest.process import ServerError
from loadtest.proxy import ANSWERS, REQUESTS
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

# What each is done to: of one target, only one at a time. "of" a shop: either of them.
TARGETS: dict[Disturbance, str] = {
    frozen: "process of",
    dead: "process of",
    deaf_to_etcd: "line to etcd of",
    refused_by_etcd: "line to etcd of",
    far_from_etcd: "line to etcd of",
    late_to_redis: "line to Redis of",
    unanswered_by_redis: "line to Redis of",
    mute: "front of",
    without_etcd: "etcd",
    without_leader: "etcd",
    without_redis: "Redis",
    behind_a_stranger: "name",
}


@dataclass(frozen=True)
class Planned:
    """A disturbance with its time; seconds from the start of the plan."""

    disturbance: Disturbance
    shop: int
    begins: float
    lasts: float

    @property
    def target(self) -> str:
        target = TARGETS[self.disturbance]
        return f"{target} {self.shop}" if target.endswith(" of") else target


def plan(random: Random) -> list[Planned]:
    """One to four disturbances that may overlap, each of another target."""
    chosen: dict[str, Planned] = {}
    for _ in range(random.randint(1, 4)):
        each = Planned(
            disturbance=random.choice(list(TARGETS)),
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
    what, shop = str(planned.disturbance.__doc__), act.shops[planned.shop]
    try:
        with planned.disturbance(act, shop):
            act.say(f"{what} ({planned.target}, for {planned.lasts:.2f} s)")
            time.sleep(planned.lasts)
    except (ServerError, OSError) as error:
        act.insist(False, f"{what} {error}")
