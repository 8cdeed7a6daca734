"""The third act: three guards, three items, one freeze between the check and the write.

All that is said was seen: the waits are those of the section log, the tokens those of the locks, and what is left of
the lease is what etcd says. There is one stop, after the lease has ended and before the holder wakes up: whoever
speaks there may speak for an hour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from app.contract.clock import now_ns
from app.contract.outcomes import Outcome
from app.contract.section_log import LoggedSection
from labs.scenes.phases import Phase, Picture, Result, Step, judged
from labs.scenes.stage import SceneAnswer, SceneStage, TooSlow

GUARDS = ("etcd-unfenced", "etcd-checked", "etcd")
ITEMS = len(GUARDS)
SLOW_S = 10.0  # on a machine that is not too slow everything has happened by then


@dataclass
class Act:
    """One item under one guard: Ada's purchase at the instance that is frozen, and Bob's at the other one."""

    stage: SceneStage
    guard: str
    item: str
    held: dict[str, Any]  # of Ada, before her write: token and line
    ada: LoggedSection
    bob: LoggedSection | None = None

    @property
    def tokens(self) -> dict[str, Any]:
        return {"token": self.ada.token, "later": self.bob.token if self.bob else None}

    def column(self, ada: str, bob: str, *, tone: str = "") -> dict[str, Any]:
        """The guard's lines with both buyers, each with the key of a text; Bob has no line before he came."""
        write, wait = self.held["line"], self.ada.line
        source = self.stage.source(self.guard, wait, write)
        marks = [("Ada", write, ada, tone)]
        if bob:
            marks.append(("Bob", write if self.bob else wait, bob, "good" if self.bob else ""))
        return {
            "guard": self.guard,
            "source": asdict(source),
            "markers": [
                {"buyer": buyer, "line": line, "text": text, "values": self.tokens, "tone": tone}
                for buyer, line, text, tone in marks
            ],
        }

    def result(self, answer: SceneAnswer, frozen: int) -> Result:
        """How it ended; raises TooSlow if Ada was not frozen between her read and her write."""
        stage = self.stage
        section = stage.await_that(lambda: stage.ended_section("ada", self.item), SLOW_S)
        if section.commit_at is None or not (section.read_at or math.inf) < frozen < section.commit_at:
            raise TooSlow
        text = "pause.sold_twice" if answer.outcome is Outcome.SOLD else "pause.refused"
        return judged(self.guard, text, self.tokens, stage.sale(self.item, through=section.instance))


def pause_the_holder(stage: SceneStage) -> Iterator[Step]:
    """Freeze the holder of three locks right before its writes, let another one sell, and wake it."""
    first, second, *_ = stage.instances
    names = {"first": first, "second": second}
    items = {guard: str(number) for number, guard in enumerate(GUARDS, 1)}
    stage.give_up()
    stage.reset(1, through=second)
    answers = {guard: stage.hold("ada", guard, item, at=first) for guard, item in items.items()}
    held = {each["guard"]: each for each in stage.await_held(ITEMS, SLOW_S, at=first)}
    acts = [
        Act(stage, guard, item, held[guard], stage.await_section("ada", SLOW_S, item)) for guard, item in items.items()
    ]
    yield Picture([act.column("marker.before_write", "") for act in acts])
    yield Phase("pause.begin", names)
    frozen = _freeze(stage, first)
    bobs = [stage.buy("bob", act.guard, at=second, item=act.item) for act in acts]
    yield Picture([act.column("marker.frozen", "marker.waits", tone="warn") for act in acts])
    yield Phase("pause.frozen", names)
    yield from stage.lease_of(first, token=acts[0].ada.token, timeout=stage.ttl_s + SLOW_S)
    for act in acts:
        act.bob = stage.await_section("bob", SLOW_S, act.item)
    if any(bob.result(SLOW_S).outcome is not Outcome.SOLD for bob in bobs):
        raise TooSlow
    waited = max(act.bob.entered for act in acts if act.bob) - frozen
    yield Picture([act.column("marker.frozen", "marker.bought", tone="warn") for act in acts])
    yield Phase("pause.sold", {**names, "waited": _seconds(waited)}, waits=True)
    stage.act("thaw", first)
    yield Phase("pause.awake", {**names, "slept": _seconds(now_ns() - frozen)})
    stage.open_gate(at=first)
    results = [act.result(answers[act.guard].result(SLOW_S), frozen) for act in acts]
    endings = {"pause.sold_twice": ("marker.wrote", "bad"), "pause.refused": ("marker.refused", "good")}
    ends = [endings[result.text] for result in results]
    yield Picture([act.column(text, "marker.bought", tone=tone) for act, (text, tone) in zip(acts, ends, strict=True)])
    yield from results
    if [result.kind for result in results] == ["oversold", "oversold", "exact"]:
        yield Phase("pause.end", names)


def _freeze(stage: SceneStage, instance: str) -> int:
    """When it stood still, by `app.contract.clock`."""
    stage.act("freeze", instance)
    return now_ns()


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.1f}"
