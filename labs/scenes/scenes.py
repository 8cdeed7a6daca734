"""The scenes: what is done to the stack, phase by phase, and the sentence at the end.

A scene tells what it is about to do, waits for the teacher, and does it. What it tells are keys of the table of texts
(``static/texts.json``) and the values for them, which may be keys as well, so that the page speaks the language of the
room.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from app.contract.clock import now_ns
from app.contract.outcomes import Outcome
from labs.scenes.stage import Answer, Stage, TooSlow

SLOW_S = 10.0  # on a machine that is not too slow everything has happened by then
THINK_MS = 3000  # of the holder that is frozen meanwhile
READ_S = 0.3  # far more than the read takes


class Phase(NamedTuple):
    """What is announced. If it `waits`, it is done when the teacher says so; or else at once."""

    text: str
    values: dict[str, Any]
    waits: bool = True


class Result(NamedTuple):
    """How one act ended; `kind` is that of `app.contract.verdict`, of which the value `n` tells by how many."""

    guard: str
    text: str
    values: dict[str, Any]
    kind: str


Step = Phase | Result
Scene = Callable[[Stage], Iterator[Step]]


def pause_the_holder(stage: Stage) -> Iterator[Step]:
    """Freeze the holder after its read, let its lease end and another one sell, and wake it; unfenced, then fenced."""
    for guard in ("etcd-unfenced", "etcd"):
        yield from _pause(stage, guard)


def _pause(stage: Stage, guard: str) -> Iterator[Step]:
    first, second, *_ = stage.instances
    yield Phase("pause.begin", {"guard": guard, "first": first, "second": second})
    stage.reset(1, through=second)
    ada = stage.buy("ada", guard, at=first, think_ms=THINK_MS)
    token = stage.await_section("ada", SLOW_S).token
    time.sleep(READ_S)
    stage.act("freeze", first)
    frozen = now_ns()
    yield Phase("pause.frozen", {"first": first, "second": second, "token": token, "ttl": stage.ttl_s})
    bob = stage.buy("bob", guard, at=second)
    yield Phase("pause.lease", {"first": first, "second": second, "ttl": stage.ttl_s}, waits=False)
    later = stage.await_section("bob", stage.ttl_s + SLOW_S).token
    if bob.result(SLOW_S).outcome is not Outcome.SOLD:
        raise TooSlow
    yield Phase("pause.sold", {"first": first, "second": second, "token": token, "later": later})
    stage.act("thaw", first)
    told = ada.result(SLOW_S)
    section = stage.await_that(lambda: stage.ended_section("ada"), SLOW_S)
    if not (section.read_at or frozen) < frozen < (section.commit_at or math.inf):
        raise TooSlow  # it was not between the read and the write that it was frozen
    sale, text = stage.sale(through=second), "pause.sold_twice"
    if told.outcome is not Outcome.SOLD:  # it has noticed by itself, unless it was frozen after its last look
        text = "pause.noticed" if section.commit_at is None else "pause.refused"
    values = {
        "first": first,
        "order": (told.order or "")[:4],
        "token": token,
        "later": later,
    }
    yield _judged(guard, text, values, sale)


def kill_the_holder(stage: Stage) -> Iterator[Step]:
    """Kill the holder before its write: its lease ends, and the next one sells."""
    first, second, *_ = stage.instances
    yield Phase("kill.begin", {"first": first, "second": second, "ttl": stage.ttl_s})
    stage.reset(1, through=second)
    ada = stage.buy("ada", "etcd", at=first, think_ms=10 * THINK_MS)
    stage.await_section("ada", SLOW_S)
    bob = stage.buy("bob", "etcd", at=second)
    yield Phase("kill.kill", {"first": first})
    stage.act("kill", first)
    yield Phase("kill.lease", {"first": first, "second": second, "ttl": stage.ttl_s}, waits=False)
    stage.await_section("bob", stage.ttl_s + SLOW_S)
    told, lost = bob.result(SLOW_S), ada.result(SLOW_S)
    sale = stage.sale(through=second)
    if told.outcome is not Outcome.SOLD or lost.outcome is not None:
        raise TooSlow
    yield Phase("kill.start", {"first": first}, waits=False)
    stage.act("start", first)
    yield _judged("etcd", "kill.sold_once", {"second": second}, sale)


def kill_etcd(stage: Stage) -> Iterator[Step]:
    """Kill etcd's leader, here its only member: nothing is sold unlocked, and sales go on when it is back."""
    first, *_ = stage.instances
    yield Phase("etcd.begin", {"first": first})
    stage.reset(2, through=first)
    stage.await_that(lambda: stage.buy("warm", "etcd", at=first).result(SLOW_S).outcome is Outcome.SOLD, SLOW_S)
    stage.act("kill", "etcd")
    refused = stage.buy("ada", "etcd", at=first).result(2 * SLOW_S)
    yield Phase("etcd.back", {"outcome": _told(refused)})
    stage.act("start", "etcd")
    served = stage.await_that(lambda: _sold(stage, "bob", first), 2 * SLOW_S)
    sale = stage.sale(through=first)
    if refused.outcome is Outcome.SOLD:
        yield Result("etcd", "etcd.unlocked", {"order": (refused.order or "")[:4]}, "flawed")
    else:
        yield _judged("etcd", "etcd.waited", {"order": served[:4]}, sale)


def redis_forgets(stage: Stage) -> Iterator[Step]:
    """Restart Redis without its data: a sale that was opened is never opened a second time by itself."""
    first, *_ = stage.instances
    yield Phase("redis.begin", {"first": first})
    stage.reset(2, through=first)
    stage.await_that(lambda: _sold(stage, "ada", first), SLOW_S)
    yield Phase("redis.wipe", {})
    stage.wipe_redis()
    refused = stage.buy("bob", "redis-lua", at=first).result(SLOW_S)
    yield Phase("redis.reset", {"outcome": _told(refused)})
    stage.reset(2, through=first)
    served = stage.await_that(lambda: _sold(stage, "bob", first), SLOW_S)
    if refused.outcome is Outcome.SOLD:
        yield Result("redis-lua", "redis.sold_again", {"order": (refused.order or "")[:4]}, "flawed")
    else:
        yield Result("redis-lua", "redis.refused", {"order": served[:4]}, "exact")


def _judged(guard: str, text: str, values: dict[str, Any], sale: dict[str, Any]) -> Result:
    return Result(guard, text, {**values, "n": abs(sale["orders"] - sale["initial"])}, sale["kind"])


def _told(answer: Answer) -> str:
    """The key of what a buyer was told."""
    return f"outcome.{(answer.outcome or Outcome.ERROR).value}"


def _sold(stage: Stage, buyer: str, at: str) -> str | None:
    """The order of a purchase that was sold."""
    return stage.buy(buyer, "etcd", at=at).result(2 * SLOW_S).order


SCENES: dict[str, Scene] = {
    "pause": pause_the_holder,
    "kill": kill_the_holder,
    "etcd": kill_etcd,
    "redis": redis_forgets,
}
