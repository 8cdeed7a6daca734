"""Waits that end: by a timeout, and in a ``with`` whose lock another one has."""

from __future__ import annotations

import time

from labs.libraries.cases.case import NOT_OFFERED, SLACK_S, Finding, no, partly, yes
from labs.libraries.trial import LockTrial, answer

TIMEOUT_S = 1
HELD_S = 20  # the TTL of a lock that is to stay held
ATTEMPT_S = 3.0  # after which an attempt counts as a wait
EARLY = 0.7
BLOCK_S = 13.0  # longer than the ten seconds that some wait in any case


def timeout(trial: LockTrial) -> tuple[Finding, ...]:
    """A timeout of a second on a lock that is held, and the call that tries once on one that is free and one held."""
    (holder,) = trial.contenders("A")
    waiter, first, last = trial.contenders("B", "C", "D")
    trial.begin()
    free = first.acquire(timeout=0)
    if free is not None and free.acquired:
        first.release()
    holder.take(HELD_S)
    began = time.monotonic()
    response = waiter.acquire(timeout=TIMEOUT_S, within=BLOCK_S)
    took_s = time.monotonic() - began
    if response is not None and not response.offered:
        return (NOT_OFFERED,)
    if response is not None and response.acquired:
        return (no("second_holder"),)
    attempt = last.acquire(timeout=0, within=ATTEMPT_S)
    finding = judge_timeout(
        took_s=took_s if response is not None else None,
        offered=free is None or free.offered,
        takes_free=bool(free and free.acquired),
        waits=attempt is None,
        lag_s=trial.lag_s,
    )
    return (finding,)


def judge_timeout(*, took_s: float | None, offered: bool, takes_free: bool, waits: bool, lag_s: float) -> Finding:
    """How long the wait took, `None` for ever, and what an attempt did, where there is one."""
    if took_s is None or took_s > TIMEOUT_S + SLACK_S + lag_s:
        return no("late", s=took_s or BLOCK_S, timeout=TIMEOUT_S)
    if took_s < EARLY * TIMEOUT_S:
        return partly("early", s=took_s, timeout=TIMEOUT_S)
    if not offered:
        return partly("no_attempt", s=took_s)
    if not takes_free:
        return partly("attempt_misses")
    return partly("attempt_waits") if waits else yes("kept", s=took_s)


def body(trial: LockTrial) -> tuple[Finding, ...]:
    """A ``with`` on a lock that another one holds: does its body run?"""
    (holder,) = trial.contenders("A")
    (waiter,) = trial.contenders("B")
    trial.begin()
    holder.take(HELD_S)
    trial.note("enters_with", waiter.name)
    block = waiter.send("block", name=trial.name, ttl=HELD_S, timeout=TIMEOUT_S, file=str(trial.file))
    response = answer(block, BLOCK_S)
    if response is not None and not response.offered:
        return (NOT_OFFERED,)
    ran = next((line for line in trial.lines() if line["event"] == "enter"), None)
    if ran:
        trial.note("enter", waiter.name, at=ran["at"])
        return (no("body_ran"),)
    if response is not None and response.error:
        return (yes("raises", error=response.error.split(":")[0]),)
    return (yes("waits"),)
