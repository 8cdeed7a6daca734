"""Guards side by side: one rush under each, in the shape of ``comparison.json``."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from app.contract.outcomes import Outcome, Promise
from app.contract.verdict import Kind, Verdict
from loadtest.language import ENGLISH, text_in, verdict_in
from loadtest.results.answer import Answer, wall_s
from loadtest.results.json_files import read_object, restore, write_text_file

BASELINE = "none"  # the guard without a lock
# Why a lock, why a distributed one, how it is made fast, and whether it is needed at all.
DEMO_GUARDS = (BASELINE, "thread", "etcd", "etcd-batch", "redis-lua")
BROKEN, OUT_OF_TIME, WENT, TOO_FEW = "BROKEN", "out of time", "instance went", "too few answers"
_BUYERS = ("gave_up", "refused", "unanswered", "errors")
_WHY_NOT = ("ran_out_of_time", "too_few_answered", "instance_went")
_JUDGED = ("oversold", "undersold", "lost_updates", "duplicates", *_BUYERS, *_WHY_NOT)
BROKEN_PROMISE, NO_RESULT = 1, 2  # exit codes


@dataclass(frozen=True)
class Percentiles:
    """Milliseconds; None if nothing was measured."""

    p50: float | None = None
    p99: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Percentiles:
        measured = sorted(value for value in values if value is not None)
        if not measured:
            return cls()
        cuts = statistics.quantiles(measured, n=100, method="inclusive") if len(measured) > 1 else measured * 99
        return cls(round(cuts[49], 1), round(cuts[98], 1), round(measured[-1], 1))


@dataclass(frozen=True)
class GuardRun:
    """One rush under one guard.

    Attributes:
        promise: in the shop's words, see `Promise`; "none" is always kept.
        findings: what the verdict says, see `Verdict.findings`.
        kind, exact: what the verdict says, without its words.
        kept_promise: None if there is no verdict.
        outcomes: how many clicks ended how; outcomes that did not occur are 0.
        orders: entries of the ledger.
        wall_s: seconds from the first click to the last answer.
        send_spread_ms: between the first click and the last.
        purchase_ms: from each click to its answer, as the buyer saw it.
        waited_ms, held_ms: for the guard's turn and inside the critical section, as the shop measured them.
        by_instance: outcomes of each instance.
        gave_up: buyers whose guard ran out of time.
        refused, unanswered: buyers who were answered 503 for another reason, or not at all.
        errors: answers that are no receipt and no refusal, such as a 500: a broken promise of any guard.
        too_few_answered: fewer were served than there were items, so there is no verdict.
        ran_out_of_time: less was sold because of these buyers alone: there was not time enough for a verdict.
        instance_went: less was sold, and an instance ended meanwhile: no verdict either.
    """

    guard: str
    promise: str
    outcomes: dict[str, int]
    orders: int
    stock_left: int
    oversold: int
    undersold: int
    lost_updates: int
    duplicates: int
    verdict: str
    findings: dict[str, int]
    kind: Kind
    exact: bool
    kept_promise: bool | None
    wall_s: float
    requests_per_s: float
    send_spread_ms: float
    purchase_ms: Percentiles
    waited_ms: Percentiles
    held_ms: Percentiles
    by_instance: dict[str, dict[str, int]]
    gave_up: int = 0
    refused: int = 0
    unanswered: int = 0
    errors: int = 0
    too_few_answered: bool = False
    ran_out_of_time: bool = False
    instance_went: bool = False

    @classmethod
    def of(cls, guard: str, promise: str, verdict: Verdict, *, stock_left: int, answers: Sequence[Answer]) -> GuardRun:
        """The figures of one rush, from its verdict and at least one answer."""
        sent_ms = [answer.sent_ms for answer in answers]
        seconds = wall_s(answers)
        instances = sorted({answer.instance for answer in answers})
        return cls(
            guard=guard,
            promise=promise,
            outcomes=_outcomes(answers),
            orders=verdict.sold,
            stock_left=stock_left,
            **{name: getattr(verdict, name) for name in _JUDGED},
            verdict=verdict.sentence,
            findings=verdict.findings,
            kind=verdict.kind,
            exact=verdict.exact,
            kept_promise=_kept(promise, verdict),
            wall_s=round(seconds, 3),
            requests_per_s=round(len(answers) / max(seconds, 0.001), 1),
            send_spread_ms=round(max(sent_ms) - min(sent_ms), 1),
            purchase_ms=Percentiles.of(answer.purchase_ms for answer in answers),
            waited_ms=Percentiles.of(answer.waited_ms for answer in answers),
            held_ms=Percentiles.of(answer.held_ms for answer in answers),
            by_instance={name: _outcomes(a for a in answers if a.instance == name) for name in instances},
        )

    @property
    def promise_result(self) -> str:
        """Whether the promise was kept, in a word or two."""
        if self.kept_promise:
            return "none" if self.promise == Promise.NONE else "kept"
        if self.instance_went:
            return WENT
        if self.ran_out_of_time:
            return OUT_OF_TIME
        if self.too_few_answered:
            return TOO_FEW
        return "unknown" if self.kept_promise is None else BROKEN

    @property
    def failed(self) -> int:
        """Clicks that were not served: neither sold nor truly sold out."""
        return sum(self.outcomes.values()) - self.outcomes["sold"] - self.outcomes["sold_out"]


def _kept(promise: str, verdict: Verdict) -> bool | None:
    if verdict.kind is Kind.NONE:
        return None
    if verdict.errors:
        return False
    if verdict.too_few_answered:
        return None
    if promise == Promise.NONE or verdict.exact:
        return True
    return None if verdict.ran_out_of_time or verdict.instance_went else False


def _outcomes(answers: Iterable[Answer]) -> dict[str, int]:
    counted = Counter(answer.outcome for answer in answers)
    return {outcome.value: counted[outcome] for outcome in Outcome}


@dataclass
class Comparison:
    """The same rush under several guards.

    Attributes:
        buyers: each clicks once in every run.
        started: ISO 8601, UTC.
        versions: of what took part.
        hold_ms: think time inside the critical section.
        machine: where the buyers were; see `loadtest.results.machine`.
    """

    stock: int
    buyers: int
    started: str
    versions: dict[str, str]
    runs: list[GuardRun] = field(default_factory=list)
    hold_ms: int = 0
    machine: dict[str, Any] = field(default_factory=dict)

    @property
    def kept(self) -> bool:
        """Whether every guard kept its promise."""
        return all(run.kept_promise for run in self.runs)

    @property
    def exit_code(self) -> int:
        """The exit code of a command: 0 if every guard kept its promise."""
        if self.kept:
            return 0
        return NO_RESULT if self._disturbed or not self._listed(BROKEN) else BROKEN_PROMISE

    @property
    def _disturbed(self) -> list[str]:
        return [run.guard for run in self.runs if run.kind is Kind.NONE]

    @property
    def baseline_oversold(self) -> int:
        """By how many items the unlocked sale oversold; 0 if it did not run."""
        return max((run.oversold for run in self.runs if run.guard == BASELINE and run.kept_promise), default=0)

    @property
    def sentence(self) -> str:
        return " ".join(self.sentences(ENGLISH))

    def sentences(self, language: str) -> list[str]:
        say = partial(text_in, language)
        if self._disturbed:
            return [say("result.disturbed", guards=", ".join(self._disturbed)), say("result.again")]
        told = [say("result.broken", guards=broken)] if (broken := self._listed(BROKEN, language)) else []
        if late := self._listed(OUT_OF_TIME, language):
            thinking_s = self.hold_ms * self.stock / 1000
            told.append(say("result.late_thinking" if thinking_s else "result.late", guards=late, s=f"{thinking_s:g}"))
        if few := self._listed(TOO_FEW, language):
            told.append(say("result.too_few", guards=few))
        if went := self._listed(WENT, language):
            told.append(say("result.went", guards=went))
        told = told or [say("result.kept" if self._promised else "result.nothing")]
        if self.baseline_oversold:
            told.append(say("result.oversold", sold=self.stock + self.baseline_oversold, stock=self.stock))
        elif any(run.guard == BASELINE for run in self.runs):
            told.append(say("result.proves_nothing"))
        return told

    @property
    def tone(self) -> str:
        """How it is shown: "good", "bad", or "plain" without a promise and a flaw."""
        if self._promised:
            return "good" if self.kept else "bad"
        return "plain" if all(run.exact for run in self.runs) else "bad"

    @property
    def _promised(self) -> bool:
        return any(run.promise != Promise.NONE for run in self.runs)

    def _listed(self, promise_result: str, language: str = ENGLISH) -> str:
        listed = [run for run in self.runs if run.promise_result == promise_result]
        return ", ".join(f"{run.guard} ({verdict_in(language, run.findings)})" for run in listed)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)

    def write(self, path: Path) -> None:
        write_text_file(path, self.to_json() + "\n")

    @classmethod
    def read(cls, path: Path) -> Comparison:
        """The comparison in a file; raises KeptError."""
        return restore(cls, read_object(path), path)
