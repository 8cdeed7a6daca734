"""The scenes: what is done to the stack, phase by phase, and the sentence at the end.

A scene tells what it does, and waits for the teacher only where nothing runs out meanwhile. What it tells are keys of
the table of texts (``static/texts.json``) and the values for them, which may be keys as well, so that the page speaks
the language of the room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from app.contract.clock import now_ns
from app.contract.outcomes import Outcome
from labs.scenes.phases import Phase, Result, Step, judged
from labs.scenes.stage import SceneAnswer, SceneStage, TooSlow
from labs.scenes.third_act import ITEMS, pause_the_holder

__all__ = ["ITEMS", "SCENES", "Scene"]

SLOW_S = 10.0  # on a machine that is not too slow everything has happened by then
THINK_MS = 30_000  # of the holder that is killed meanwhile

Scene = Callable[[SceneStage], Iterator[Step]]


def kill_the_holder(stage: SceneStage) -> Iterator[Step]:
    """Kill the holder before its write: its lease ends, and the next one sells."""
    first, second, *_ = stage.instances
    names = {"first": first, "second": second}
    yield Phase("kill.begin", names, waits=True)
    stage.reset(1, through=second)
    ada = stage.buy("ada", "etcd", at=first, think_ms=THINK_MS)
    token = stage.await_section("ada", SLOW_S).token
    bob = stage.buy("bob", "etcd", at=second)
    stage.act("kill", first)
    killed = now_ns()
    yield Phase("kill.killed", {**names, "token": token})
    yield from stage.lease_of(first, token=token, timeout=stage.ttl_s + SLOW_S)
    waited = stage.await_section("bob", SLOW_S).entered - killed
    told, lost = bob.result(SLOW_S), ada.result(SLOW_S)
    sale = stage.sale(through=second)
    if told.outcome is not Outcome.SOLD or lost.outcome is not None:
        raise TooSlow
    yield Phase("kill.start", {**names, "waited": f"{waited / 1e9:.1f}"})
    stage.act("start", first)
    yield judged("etcd", "kill.sold_once", {"second": second}, sale)


def kill_etcd(stage: SceneStage) -> Iterator[Step]:
    """Kill etcd's leader, here its only member: nothing is sold unlocked, and sales go on when it is back."""
    first, *_ = stage.instances
    yield Phase("etcd.begin", {"first": first}, waits=True)
    stage.reset(2, through=first)
    stage.await_that(lambda: stage.buy("warm", "etcd", at=first).result(SLOW_S).outcome is Outcome.SOLD, SLOW_S)
    stage.act("kill", "etcd")
    refused = stage.buy("ada", "etcd", at=first).result(2 * SLOW_S)
    yield Phase("etcd.back", {"outcome": _told(refused)}, waits=True)
    stage.act("start", "etcd")
    served = stage.await_that(lambda: _sold(stage, "bob", first), 2 * SLOW_S)
    sale = stage.sale(through=first)
    if refused.outcome is Outcome.SOLD:
        yield Result("etcd", "etcd.unlocked", {"order": (refused.order or "")[:4]}, "flawed")
    else:
        yield judged("etcd", "etcd.waited", {"order": served[:4]}, sale)


def redis_forgets(stage: SceneStage) -> Iterator[Step]:
    """Restart Redis without its data: a sale that was opened is never opened a second time by itself."""
    first, *_ = stage.instances
    yield Phase("redis.begin", {"first": first}, waits=True)
    stage.reset(2, through=first)
    stage.await_that(lambda: _sold(stage, "ada", first), SLOW_S)
    yield Phase("redis.wipe", {}, waits=True)
    stage.wipe_redis()
    refused = stage.buy("bob", "redis-lua", at=first).result(SLOW_S)
    yield Phase("redis.reset", {"outcome": _told(refused)}, waits=True)
    stage.reset(2, through=first)
    served = stage.await_that(lambda: _sold(stage, "bob", first), SLOW_S)
    if refused.outcome is Outcome.SOLD:
        yield Result("redis-lua", "redis.sold_again", {"order": (refused.order or "")[:4]}, "flawed")
    else:
        yield Result("redis-lua", "redis.refused", {"order": served[:4]}, "exact")


def _told(answer: SceneAnswer) -> str:
    """The key of what a buyer was told."""
    return f"outcome.{(answer.outcome or Outcome.ERROR).value}"


def _sold(stage: SceneStage, buyer: str, at: str) -> str | None:
    """The order of a purchase that was sold."""
    return stage.buy(buyer, "etcd", at=at).result(2 * SLOW_S).order


SCENES: dict[str, Scene] = {
    "pause": pause_the_holder,
    "kill": kill_the_holder,
    "etcd": kill_etcd,
    "redis": redis_forgets,
}
