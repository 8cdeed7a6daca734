"""Many contenders at once: are they alone inside, and do they come in as they arrived?"""

from __future__ import annotations

import time
from concurrent.futures import Future
from functools import partial

from labs.libraries.cases.case import Evidence, Finding, LockCase, no, partly, yes
from labs.libraries.program import Response
from labs.libraries.trial import LockTrial, TrialContender, answer, brief, first_overlap

LONG_TTL_S = 30  # expires in none of these cases
WITHIN_S = 40.0


class Exclusion(LockCase):
    """Twenty contenders in two processes, three turns each."""

    name = "exclusion"
    columns = ("exclusion",)
    races = True
    contenders, turns, inside_s = 20, 3, 0.005

    def drive(self, trial: LockTrial) -> Evidence:
        half = self.contenders // 2
        all_of_them = [
            *trial.contenders(*(f"A{number}" for number in range(1, half + 1))),
            *trial.contenders(*(f"B{number}" for number in range(1, half + 1))),
        ]
        trial.begin()
        deadline = time.monotonic() + WITHIN_S
        futures = [turns(contender, self.turns, self.inside_s) for contender in all_of_them]
        responses = [answer(future, max(deadline - time.monotonic(), 0.0)) for future in futures]
        lines = sorted(trial.lines(), key=lambda line: line["at"])
        overlap = first_overlap(lines)
        if overlap:
            middle = next(place for place, line in enumerate(lines) if line["at"] == overlap[2])
            for line in lines[max(middle - 3, 0) : middle + 4]:
                trial.history.note(line["who"], line["event"], at=line["at"])
        errors = [response.error for response in responses if response is not None and response.error]
        entered = sum(line["event"] == "enter" for line in lines)
        return {
            "overlap": overlap,
            "entered": entered,
            "failed": len(errors),
            "error": brief(errors[0] if errors else ""),
        }

    def judge(self, evidence: Evidence) -> tuple[Finding, ...]:
        if evidence["overlap"]:
            return (no("two_inside", first=evidence["overlap"][0], second=evidence["overlap"][1]),)
        if evidence["failed"]:
            return (partly("contenders_failed", n=evidence["failed"], of=self.contenders, error=evidence["error"]),)
        return (yes("alone", n=evidence["entered"]),)


class ArrivalOrder(LockCase):
    """One holds, eight ask a quarter of a second apart, in two processes in turn."""

    name = "order"
    columns = ("order",)
    races = True
    waiters, apart_s, inside_s = 8, 0.25, 0.01
    arrived_s = 3.0  # at most, until the server has a key of the waiter; it is asked until one has none

    def drive(self, trial: LockTrial) -> Evidence:
        half = self.waiters // 2
        (holder,) = trial.contenders("A")
        odd = trial.contenders(*(f"W{2 * number + 1}" for number in range(half)))
        even = trial.contenders(*(f"W{2 * number + 2}" for number in range(half)))
        waiters = [waiter for pair in zip(odd, even, strict=True) for waiter in pair]
        trial.begin()
        holder.take(LONG_TTL_S)
        futures, has_queue = [], True
        for waiter in waiters:
            trial.note("asks", waiter.name)
            queued = len(trial.keys())
            futures.append(turns(waiter, 1, self.inside_s))
            time.sleep(self.apart_s)
            has_queue = has_queue and trial.wait_until(partial(self._has_queued, trial, queued), self.arrived_s)
        holder.release()
        for future in futures:
            answer(future, WITHIN_S)
        served = [line for line in trial.lines() if line["event"] == "enter"]
        for line in trial.lines():
            trial.history.note(line["who"], line["event"], at=line["at"])
        return {"asked": [waiter.name for waiter in waiters], "served": [line["who"] for line in served]}

    def _has_queued(self, trial: LockTrial, before: int) -> bool:
        return len(trial.keys()) > before

    def judge(self, evidence: Evidence) -> tuple[Finding, ...]:
        asked, served = evidence["asked"], evidence["served"]
        if served != asked[: len(served)]:
            return (no("out_of_order", served=" ".join(served)),)
        if len(served) < len(asked):
            return (partly("unserved", n=len(asked) - len(served), of=len(asked)),)
        return (yes("in_order"),)


def turns(contender: TrialContender, number: int, seconds: float) -> Future[Response]:
    """Have it take the lock so many times, noting itself in the file."""
    arguments = {"name": contender.trial.name, "ttl": LONG_TTL_S, "file": str(contender.trial.file)}
    return contender.send("turn", seconds=seconds, turns=number, **arguments)
