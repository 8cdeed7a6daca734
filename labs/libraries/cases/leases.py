"""A lock that outlives its time, and a holder that is killed, paused or robbed."""

from __future__ import annotations

import time
from itertools import pairwise

from labs.libraries.cases.case import NOT_OFFERED, SLACK_S, Evidence, Finding, LockCase, no, partly, yes
from labs.libraries.trial import TTL_S, LockTrial, TrialContender, answer, brief, require_waiting

LONG_S = 2.5 * TTL_S  # a section that is longer than the TTL
FREED_S = 15.0
TOLD_S = 6.0
HELD_TTL_S = 20
LATER_S = 1.0  # so that the waiter's own lease, where none renews it, ends after the holder's
NEXT_TTL_S = 10  # longer than all that is tried while the next one holds, shorter than FREED_S


class Renewal(LockCase):
    """A section of two and a half times the TTL, and another one waits."""

    name = "renewal"
    columns = ("renewal",)

    def drive(self, trial: LockTrial) -> Evidence:
        (holder,), (waiter,) = trial.contenders("A"), trial.contenders("B")
        trial.begin()
        holder.take()
        began = trial.history.now()
        wait = waiter.ask(HELD_TTL_S)
        trial.wait_until(lambda: waiter.holds or wait.done(), LONG_S)
        require_waiting(waiter, wait)
        at = trial.history.first("B", "holds")
        return {"other_s": None if at is None else at - began}

    def judge(self, evidence: Evidence) -> tuple[Finding, ...]:
        if evidence["other_s"] is None:
            return (yes("still_held", s=LONG_S, ttl=TTL_S),)
        return (no("next_came", s=evidence["other_s"], ttl=TTL_S),)


class Killed(LockCase):
    """kill -9 of the holder's process while another one waits."""

    name = "killed"
    columns = ("killed",)

    def drive(self, trial: LockTrial) -> Evidence:
        (holder,), (waiter,) = trial.contenders("A"), trial.contenders("B")
        trial.begin()
        holder.take()
        time.sleep(LATER_S)
        wait = waiter.ask()
        time.sleep(0.5)
        require_waiting(waiter, wait)
        began = trial.history.now()
        trial.note("killed", holder.name)
        holder.program.kill()
        response = answer(wait, FREED_S)
        at = trial.history.first("B", "holds")
        error = brief(response.error) if response is not None and response.error else ""
        return {"free_s": None if at is None else at - began, "error": error, "lag_s": trial.lag_s}

    def judge(self, evidence: Evidence) -> tuple[Finding, ...]:
        free_s = evidence["free_s"]
        if evidence["error"]:
            return (no("waiter_raised", error=evidence["error"]),)
        if free_s is None:
            return (no("never_free", s=FREED_S),)
        if free_s > TTL_S + 2 * SLACK_S + evidence["lag_s"]:
            return (partly("free_late", s=free_s, ttl=TTL_S),)
        return (yes("free", s=free_s, ttl=TTL_S),)


class Paused(LockCase):
    """The holder is paused past its TTL; when it wakes it writes and, later, releases what is another one's by now."""

    name = "paused"
    columns = ("woken", "late_release")
    races = True  # the news of the loss, and the next write

    def drive(self, trial: LockTrial) -> Evidence:
        (holder,), (waiter, third) = trial.contenders("A"), trial.contenders("B", "C")
        trial.begin()
        holder.take()
        wait = waiter.ask(NEXT_TTL_S)
        time.sleep(0.3)
        require_waiting(waiter, wait)
        trial.note("paused", holder.name)
        holder.program.pause()
        replaced = trial.wait_until(lambda: waiter.holds or wait.done(), FREED_S)
        require_waiting(waiter, wait)
        write = holder.send("write", file=str(trial.file))
        trial.note("resumed", holder.name)
        holder.program.resume()
        if not replaced:
            return {"replaced": False}
        response = answer(write, TOLD_S)
        wrote = bool(response and response.result and response.result["wrote"])
        trial.note("writes" if wrote else "told", holder.name)
        told_s = time_told(holder, trial) if wrote else 0.0
        late = holder.release()
        third.ask(HELD_TTL_S)
        robbed = trial.wait_until(lambda: third.holds, 2.0)
        refused = late is not None and bool(late.error or late.result is False)
        return {"replaced": True, "wrote": wrote, "told_s": told_s, "refused": refused, "robbed": robbed}

    def judge(self, evidence: Evidence) -> tuple[Finding, ...]:
        if not evidence["replaced"]:
            return yes("nobody_came", s=FREED_S), yes("nobody_came", s=FREED_S)
        late = no("robbed") if evidence["robbed"] else yes("not_robbed")
        if not evidence["wrote"]:
            return yes("told_before"), late
        if evidence["told_s"] is not None:
            return partly("told_after", s=evidence["told_s"]), late
        if evidence["refused"]:
            return partly("told_by_release"), late
        return no("never_told"), late


class TokenRises(LockCase):
    """Three holds one after the other, in two processes."""

    name = "token"
    columns = ("token",)

    def drive(self, trial: LockTrial) -> Evidence:
        (first,), (second,) = trial.contenders("A"), trial.contenders("B")
        trial.begin()
        tokens = []
        for contender in (first, second, first):
            contender.take()
            tokens.append(contender.token)
            contender.release()
        return {"tokens": tokens}

    def judge(self, evidence: Evidence) -> tuple[Finding, ...]:
        tokens = evidence["tokens"]
        if None in tokens:
            return (NOT_OFFERED,)
        told = ", ".join(map(str, tokens))
        rises = all(earlier < later for earlier, later in pairwise(tokens))
        return (yes("rises", tokens=told) if rises else no("does_not_rise", tokens=told),)


class KeyDeleted(LockCase):
    """The key is deleted by hand while the lock is held."""

    name = "deleted"
    columns = ("deleted",)

    def drive(self, trial: LockTrial) -> Evidence:
        (holder,) = trial.contenders("A")
        trial.begin()
        holder.take(HELD_TTL_S)
        trial.store.delete(trial.name)
        trial.note("deleted")
        told_s = time_told(holder, trial)
        response = holder.release() if told_s is None else None
        refused = response is not None and bool(response.error or response.result is False)
        return {"told_s": told_s, "refused": refused}

    def judge(self, evidence: Evidence) -> tuple[Finding, ...]:
        told_s = evidence["told_s"]
        if told_s is not None:
            return (yes("told", s=told_s),)
        return (partly("told_by_release") if evidence["refused"] else no("never_told"),)


def time_told(holder: TrialContender, trial: LockTrial) -> float | None:
    """Ask the library until it says that the lock is lost: after how many seconds; None if it never says so."""
    began = time.monotonic()
    while time.monotonic() < began + TOLD_S:
        response = holder.held()
        if response is not None and not response.offered:
            return None
        if response is not None and (response.result is False or response.error):
            trial.note("told", holder.name)
            return time.monotonic() - began
        time.sleep(0.1)
    return None
