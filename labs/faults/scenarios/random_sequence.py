"""Everything, in any order: single faults that are done to a running sale, and undone."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from labs.faults.context import ScenarioContext
from labs.faults.scenario import Expected, Scenario
from labs.faults.testbed import TTL_S, Setup, Shop, Testbed, leader_of, stranger
from loadtest.language import Message
from loadtest.stack.process import ServerError
from loadtest.stack.proxy import ANSWERS, REQUESTS, Lines
from lock import LockError

LONGEST_S = 1.75 * TTL_S


@dataclass(frozen=True)
class Injection:
    """A fault that can be done to its target, and undone; `text` is what is said of it.

    Seconds count from the start of the plan.
    """

    target: str
    text: Message
    do: Callable[[], object]
    undo: Callable[[], object]
    begins_s: float = 0.0
    lasts_s: float = 0.0


def injections(testbed: Testbed, shop: Shop) -> list[Injection]:
    """Everything that can be done to a shop, to its lines, and to the servers."""
    name, instance, to_etcd, to_redis, front = shop.name, shop.instance, shop.to_etcd, shop.to_redis, shop.front
    process, etcd_line, redis_line = f"process of {name}", f"line from {name} to etcd", f"line from {name} to Redis"
    front_line = f"front of {name}"

    held = ExitStack()

    def hold_name() -> None:
        with suppress(LockError):  # etcd is unavailable just then
            held.enter_context(stranger(testbed.etcd.endpoints, ttl=TTL_S, timeout=1))

    def release_name() -> None:
        with suppress(LockError):
            held.close()

    def kill_leader() -> None:
        if leader := leader_of(testbed.etcd):
            leader.kill()

    def drop(held_back: Lines) -> None:
        held_back.reset()
        held_back.resume()

    slow, fast = partial(to_etcd.slow_down, 0.025, 0.225), partial(to_etcd.slow_down, 0, 0)
    table: list[tuple[str, str, Callable[[], object], Callable[[], object]]] = [
        (process, "{shop} is frozen", instance.pause, instance.resume),
        (process, "{shop} is dead", instance.kill, instance.launch),
        (etcd_line, "{shop} hears nothing from etcd", to_etcd.stall, to_etcd.resume),
        (etcd_line, "{shop} cannot connect to etcd", to_etcd.refuse, to_etcd.start),
        (etcd_line, "etcd is slow for {shop}", slow, fast),
        (redis_line, "what {shop} sends to Redis is late", partial(to_redis.stall, REQUESTS), to_redis.resume),
        # Redis does what the shop asks.
        (redis_line, "Redis's answers to {shop} are lost", partial(to_redis.stall, ANSWERS), partial(drop, to_redis)),
        (front_line, "{shop}'s answers to its buyers are lost", partial(front.stall, ANSWERS), partial(drop, front)),
        ("etcd", "etcd is unavailable", testbed.etcd.stop, testbed.etcd.start),
        ("etcd", "etcd's leader is dead", kill_leader, testbed.etcd.start),
        ("Redis", "Redis is dead", testbed.redis.kill, testbed.redis.start),
        ("name", "a stranger locks a name below the sale's", hold_name, release_name),
    ]
    return [
        Injection(target, Message(text, {"shop": name} if "{shop}" in text else {}), do, undo)
        for target, text, do, undo in table
    ]


def plan_injections(random: Random, testbed: Testbed) -> list[Injection]:
    """One to four disturbances that may overlap, each of another target."""
    chosen: dict[str, Injection] = {}
    for _ in range(random.randint(1, 4)):
        each = random.choice(injections(testbed, random.choice(testbed.shops)))
        each = replace(each, begins_s=random.uniform(0.0, 2.0), lasts_s=random.uniform(0.05, LONGEST_S))
        chosen.setdefault(each.target, each)
    return sorted(chosen.values(), key=lambda each: each.begins_s)


def run_injections(context: ScenarioContext, planned: list[Injection]) -> None:
    """Disturb the sale as planned; returns when all is over."""
    threads = [context.threads.start(each.target, partial(_disturb, context, each)) for each in planned]
    for thread in threads:
        thread.join()
    context.threads.check()


def _disturb(context: ScenarioContext, planned: Injection) -> None:
    time.sleep(planned.begins_s)
    try:
        context.act(planned.do, "{fault}, for {s} s", fault=planned.text, s=round(planned.lasts_s, 1))
        time.sleep(planned.lasts_s)
        planned.undo()
    except (ServerError, OSError) as error:
        context.require_in_time(False, "{fault}: {error}", fault=planned.text, error=str(error))


class RandomSequence(Scenario):
    """Sale after sale, each with up to four random disturbances that may overlap, for --seconds.

    The seed decides what is done and when; what a process is doing at that moment, it does not.
    """

    name = "random"
    sort_key = 230
    needs_lock = False
    setup = Setup(members=3)
    unfenced = Expected.EITHER

    def __init__(self, random: Random) -> None:
        self._random = random

    def play(self, context: ScenarioContext) -> None:
        run_injections(context, plan_injections(self._random, context.testbed))
