"""Waits that end: by a timeout, by being cancelled, and in a ``with`` whose lock another one has."""

from __future__ import annotations

import time

from labs.libraries.cases.case import NOT_OFFERED, SLACK_S, Evidence, Finding, LockCase, no, partly, yes
from labs.libraries.trial import LockTrial, answer

TIMEOUT_S = 1
HELD_S = 20  # the TTL of a lock that is to stay held
ZERO_S = 3.0  # after which a timeout of 0 counts as a wait
EARLY = 0.7
BLOCK_S = 13.0  # longer than the ten seconds that some wait in any case


class Timeout(LockCase):
    """A timeout of a second on a lock that is held, and of 0 on one that is free and on one that is held."""

    name = "timeout"
    columns = ("timeout",)
    races = True  # a library that asks within the timeout may or may not be in time

    def drive(self, trial: LockTrial) -> Evidence:
        (holder,) = trial.contenders("A")
        waiter, first, last = trial.contenders("B", "C", "D")
        trial.begin()
        free = first.acquire(timeout=0)
        if free is not None and not free.offered:
            return {"offered": False}
        if free is not None and free.acquired:
            first.release()
        holder.take(HELD_S)
        began = time.monotonic()
        response = waiter.acquire(timeout=TIMEOUT_S)
        took_s = time.monotonic() - began
        if response is not None and not response.offered:
            return {"offered": False}
        zero = last.acquire(timeout=0, within=ZERO_S)
        return {
            "offered": True,
            "took_s": took_s,
            "ended": response is not None,
            "acquired": bool(response and response.acquired),
            "zero_free": bool(free and free.acquired),
            "zero_waits": zero is None,
            "lag_s": trial.lag_s,
        }

    def judge(self, evidence: Evidence) -> tuple[Finding, ...]:
        if not evidence["offered"]:
            return (NOT_OFFERED,)
        if evidence["acquired"]:
            return (no("second_holder"),)
        took_s = evidence["took_s"]
        if not evidence["ended"] or took_s > TIMEOUT_S + SLACK_S + evidence["lag_s"]:
            return (no("late", s=took_s, timeout=TIMEOUT_S),)
        if took_s < EARLY * TIMEOUT_S:
            return (partly("early", s=took_s, timeout=TIMEOUT_S),)
        if not evidence["zero_free"]:
            return (partly("zero_misses"),)
        if evidence["zero_waits"]:
            return (partly("zero_waits"),)
        return (yes("kept", s=took_s, timeout=TIMEOUT_S),)


class Abandoned(LockCase):
    """A wait times out, another one is cancelled where tasks wait; then the lock is released."""

    name = "abandoned"
    columns = ("abandoned",)

    def drive(self, trial: LockTrial) -> Evidence:
        (holder,) = trial.contenders("A")
        waiter, cancelled, last = trial.contenders("B", "C", "D")
        trial.begin()
        holder.take(HELD_S)
        before = set(trial.keys())
        response = waiter.acquire(timeout=TIMEOUT_S)
        offered = response is not None and response.offered
        if cancelled.program.tasks:
            wait = cancelled.ask(HELD_S)
            time.sleep(TIMEOUT_S)
            trial.note("cancelled", cancelled.name)
            answer(cancelled.send("cancel"), TIMEOUT_S)
            answer(wait, TIMEOUT_S)
            offered = True
        if not offered:
            return {"offered": False}
        trial.wait_until(lambda: set(trial.keys()) <= before, 1.0)
        left = sorted(set(trial.keys()) - before)
        holder.release()
        began = time.monotonic()
        last.acquire(HELD_S, within=HELD_S + 5)
        return {
            "offered": True,
            "left": len(left),
            "next": last.holds,
            "took_s": time.monotonic() - began,
            "lag_s": trial.lag_s,
        }

    def judge(self, evidence: Evidence) -> tuple[Finding, ...]:
        if not evidence["offered"]:
            return (NOT_OFFERED,)
        if not evidence["next"] or evidence["took_s"] > SLACK_S + evidence["lag_s"]:
            return (no("blocks_next", s=evidence["took_s"]),)
        if evidence["left"]:
            return (partly("key_left", n=evidence["left"]),)
        return (yes("nothing_left"),)


class Body(LockCase):
    """A ``with`` on a lock that another one holds: does its body run?"""

    name = "body"
    columns = ("body",)

    def drive(self, trial: LockTrial) -> Evidence:
        (holder,) = trial.contenders("A")
        (waiter,) = trial.contenders("B")
        trial.begin()
        holder.take(HELD_S)
        trial.note("enters_with", waiter.name)
        arguments = {"name": trial.name, "ttl": HELD_S, "timeout": TIMEOUT_S, "file": str(trial.file)}
        response = answer(waiter.send("block", **arguments), BLOCK_S)
        ran = next((line for line in trial.lines() if line["event"] == "enter"), None)
        if ran:
            trial.history.note(waiter.name, "enter", at=ran["at"])
        elif response is not None and response.error:
            trial.note("fails", waiter.name, error=response.error)
        offered = response is None or response.offered
        return {"offered": offered, "ran": ran is not None, "error": response.error if response else None}

    def judge(self, evidence: Evidence) -> tuple[Finding, ...]:
        if not evidence["offered"]:
            return (NOT_OFFERED,)
        if evidence["ran"]:
            return (no("body_ran"),)
        if evidence["error"]:
            return (yes("raises", error=evidence["error"].split(":")[0]),)
        return (yes("waits"),)
