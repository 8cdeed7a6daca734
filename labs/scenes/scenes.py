"""The scenes: what is done to the stack, phase by phase, and the sentence at the end.

A scene waits for the teacher only where nothing runs out meanwhile. Whatever it tells was seen: waits are those that
the shops measured, tokens those of the locks, and what is left of a lease is what etcd says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from app.contract.clock import now_ns
from app.contract.outcomes import Outcome
from labs.scenes.stage import SLOW_S, Phase, Result, SceneStage, Step, TooSlow, since

GUARDS = ("etcd-unfenced", "etcd-checked", "etcd")
ENDINGS = {
    Outcome.SOLD: ("pause.sold_twice", "marker.wrote", "bad"),
    Outcome.LOCK_LOST: ("pause.refused", "marker.refused", "good"),
}


@dataclass
class Act:
    """One item under one guard: Ada's purchase at the instance that is frozen, and Bob's at the other one."""

    guard: str
    item: str
    held: dict[str, Any]  # Ada's purchase, see `SceneStage.hold`
    later: Any = None  # Bob's token, once he has bought

    @property
    def tokens(self) -> dict[str, Any]:
        return {"token": self.held["token"], "later": self.later}

    def column(self, ada: str, bob: str = "", *, tone: str = "") -> dict[str, Any]:
        """The guard's lines with both buyers, each with the key of a text; Bob has no line before he came."""
        marks = [("Ada", "write", ada, tone)]
        if bob:
            marks.append(("Bob", "write" if self.later else "lock", bob, "good" if self.later else ""))
        markers = [
            {"buyer": buyer, "line": self.held[line], "text": text, "values": self.tokens, "tone": tone}
            for buyer, line, text, tone in marks
        ]
        return {"guard": self.guard, "source": self.held["source"], "markers": markers}


def pause_the_holder(stage: SceneStage) -> Iterator[Step]:
    """Freeze the holder of three locks right before its writes, let another one sell, and wake it.

    There is one stop, after the lease has ended and before the holder wakes up. The teacher may speak for an hour.
    """
    first, second, *_ = stage.instances
    names = {"first": first, "second": second}
    items = {guard: str(number) for number, guard in enumerate(GUARDS, 1)}
    stage.give_up()
    stage.ask(second, "/stock/reset?stock=1", "POST")
    acts = [Act(guard, item, stage.hold(guard, at=first, item=item)) for guard, item in items.items()]
    yield Phase("pause.begin", names, [act.column("marker.before_write") for act in acts])
    stage.act("freeze", first)
    frozen = now_ns()
    bobs = [stage.buy("bob", act.guard, at=second, item=act.item) for act in acts]
    yield Phase("pause.frozen", names, [act.column("marker.frozen", "marker.waits", tone="warn") for act in acts])
    yield from stage.lease_of(first)
    told = [bob.result(SLOW_S) for bob in bobs]
    if any(answer.get("outcome") != Outcome.SOLD for answer in told):
        raise TooSlow
    for act, answer in zip(acts, told, strict=True):
        act.later = answer["token"]
    columns = [act.column("marker.frozen", "marker.bought", tone="warn") for act in acts]
    waited = since(frozen, max(answer["entered"] for answer in told))
    yield Phase("pause.sold", {**names, "waited": waited}, columns, waits=True)
    stage.act("thaw", first)
    yield Phase("pause.awake", {**names, "slept": since(frozen)})
    outcomes = [stage.step_to("over", act.held["id"], at=first)["outcome"] for act in acts]
    if not ENDINGS.keys() >= {*outcomes}:
        raise TooSlow
    ends = [(act, *ENDINGS[outcome]) for act, outcome in zip(acts, outcomes, strict=True) if outcome]
    sales = [stage.ask(second, f"/stock?item={act.item}") for act in acts]
    results = [Result.of(act.guard, text, act.tokens, sale) for (act, text, *_), sale in zip(ends, sales, strict=True)]
    yield from results
    is_usual = [result.kind for result in results] == ["oversold", "oversold", "exact"]
    columns = [act.column(marker, "marker.bought", tone=tone) for act, _, marker, tone in ends]
    yield Phase("pause.end" if is_usual else "pause.other", names, columns)


def kill_the_holder(stage: SceneStage) -> Iterator[Step]:
    """Kill the holder before its write: its lease ends, and the next one sells."""
    first, second, *_ = stage.instances
    names = {"first": first, "second": second}
    yield Phase("kill.begin", names, waits=True)
    stage.give_up()
    stage.ask(second, "/stock/reset?stock=1", "POST")
    token = stage.hold("etcd", at=first)["token"]
    bob = stage.buy("bob", "etcd", at=second)
    stage.act("kill", first)
    killed = now_ns()
    yield Phase("kill.killed", {**names, "token": token})
    yield from stage.lease_of(first)
    answer = bob.result(SLOW_S)
    if answer.get("outcome") != Outcome.SOLD:
        raise TooSlow
    yield Phase("kill.start", {**names, "waited": since(killed, answer["entered"])})
    stage.act("start", first)
    yield Result.of("etcd", "kill.sold_once", {"second": second}, stage.ask(second, "/stock"))


SCENES: dict[str, Callable[[SceneStage], Iterator[Step]]] = {"pause": pause_the_holder, "kill": kill_the_holder}
