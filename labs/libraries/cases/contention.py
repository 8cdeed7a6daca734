"""Many contenders at once: are they alone inside, do they come in as they arrived, and what do they cost?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import pairwise

from labs.libraries.cases.case import NOT_OFFERED, Finding, figure, no, partly, yes
from labs.libraries.program import Response
from labs.libraries.trial import LockTrial, TrialContender, answer, brief

LONG_TTL_S = 30  # expires in none of these cases
WITHIN_S = 40.0
CONTENDERS, TURNS, INSIDE_S = 20, 3, 0.005
WAITERS, APART_S = 8, 0.25
WAITING_TTL_S = 60
SETTLED_S, COUNTED_S = 6.0, 5.0
ARRIVED_S = 1.5  # at most, until the server has a key of the waiter; it is asked until one has none


def exclusion(trial: LockTrial) -> tuple[Finding, ...]:
    """Twenty contenders in two processes, three turns each, with the token of each turn where there is one."""
    contenders = []
    for process in "AB":
        contenders += trial.contenders(*(f"{process}{number}" for number in range(1, CONTENDERS // 2 + 1)))
    trial.begin()
    deadline = time.monotonic() + WITHIN_S
    futures = [turns(contender, TURNS, INSIDE_S) for contender in contenders]
    responses = [answer(future, max(deadline - time.monotonic(), 0.0)) for future in futures]
    lines = trial.lines()
    tokens = judge_tokens([line["token"] for line in lines if line["event"] == "enter"])
    for place, (one, other) in enumerate(pairwise(lines)):
        if one["event"] == other["event"] == "enter":
            for line in lines[max(place - 2, 0) : place + 5]:
                trial.note(line["event"], line["who"], at=line["at"])
            return no("two_inside", first=one["who"], second=other["who"]), tokens
    if errors := [response.error for response in responses if response is not None and response.error]:
        return partly("contenders_failed", n=len(errors), of=CONTENDERS, error=brief(errors[0])), tokens
    return yes("alone", n=len(lines) // 2), tokens


def judge_tokens(tokens: Sequence[int | None]) -> Finding:
    """The numbers of holds one after the other."""
    for first, second in pairwise(tokens):
        if first is None or second is None:
            return NOT_OFFERED
        if first >= second:
            return no("does_not_rise", first=first, second=second)
    return yes("rises", n=len(tokens))


def arrival_order(trial: LockTrial) -> tuple[Finding, ...]:
    """One holds, eight ask a quarter of a second apart, in two processes in turn."""
    (holder,) = trial.contenders("A")
    odd = trial.contenders(*(f"W{number}" for number in range(1, WAITERS + 1, 2)))
    even = trial.contenders(*(f"W{number}" for number in range(2, WAITERS + 1, 2)))
    waiters = [waiter for pair in zip(odd, even, strict=True) for waiter in pair]
    trial.begin()
    holder.take(LONG_TTL_S)
    futures, has_queue = [], True
    for waiter in waiters:
        trial.note("asks", waiter.name)
        queued = len(trial.keys())
        futures.append(turns(waiter, 1, INSIDE_S))
        time.sleep(APART_S)
        has_queue = has_queue and trial.wait_until(lambda: len(trial.keys()) > queued, ARRIVED_S)  # noqa: B023
    holder.release()
    for future in futures:
        answer(future, WITHIN_S)
    for line in trial.lines():
        trial.note(line["event"], line["who"], at=line["at"])
    served = [line["who"] for line in trial.lines() if line["event"] == "enter"]
    if served != [waiter.name for waiter in waiters[: len(served)]]:
        return (no("out_of_order", served=" ".join(served)),)
    unserved = len(waiters) - len(served)
    return (partly("unserved", n=unserved, of=len(waiters)) if unserved else yes("in_order"),)


def waiters(trial: LockTrial) -> tuple[Finding, ...]:
    """Many wait in one process for a lock that stays held."""
    (holder,) = trial.contenders("A")
    waiters = trial.contenders(*(f"W{number}" for number in range(1, trial.waiters + 1)))
    trial.begin()
    holder.take(WAITING_TTL_S)
    for waiter in waiters:
        waiter.ask(WAITING_TTL_S)
    time.sleep(SETTLED_S)
    before, began = trial.store.requests(), time.monotonic()
    time.sleep(COUNTED_S)
    requests = (trial.store.requests() - before) / (time.monotonic() - began)
    failed = sum(event.what == "fails" for event in trial.events)
    threads = waiters[0].program.threads()
    return (figure("cost_failed" if failed else "cost", requests=round(requests), threads=threads, failed=failed),)


def speed(trial: LockTrial) -> tuple[Finding, ...]:
    """One contender locks and unlocks a name that nobody else wants."""
    (contender,) = trial.contenders("A")
    trial.begin()
    contender.take(WAITING_TTL_S)
    contender.release()
    response = answer(contender.send("repeat", name=trial.name, ttl=WAITING_TTL_S, seconds=3.0), 30.0)
    if response is None or response.result is None:
        return (NOT_OFFERED,)
    return (figure("speed", per_s=round(response.result)),)


def turns(contender: TrialContender, number: int, seconds: float) -> Future[Response]:
    """Have it take the lock so many times, noting itself in the file."""
    name, file = contender.trial.name, str(contender.trial.file)
    return contender.send("turn", name=name, ttl=LONG_TTL_S, file=file, seconds=seconds, turns=number)
