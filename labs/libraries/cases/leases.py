"""A lock that outlives its time, and a holder that is killed, paused or robbed."""

from __future__ import annotations

import time

from labs.libraries.cases.case import NOT_OFFERED, SLACK_S, CellAnswer, Finding, no, partly, yes
from labs.libraries.trial import TTL_S, LockTrial, TrialContender, answer, brief, require_waiting

LONG_S = 2.5 * TTL_S  # a section that is longer than the TTL
RENEW_S = TTL_S * 2 / 3
FREED_S = 15.0
TOLD_S = 6.0
HELD_TTL_S = 20
LATER_S = 1.0  # so that the waiter's own lease, if none renews it, ends after the holder's
NEXT_TTL_S = 10  # longer than all that is tried while the next one holds, shorter than FREED_S
BLOCKS = Finding(CellAnswer.BLOCKS, "blocks", {"s": FREED_S})


def renewal(trial: LockTrial) -> tuple[Finding, ...]:
    """A section of two and a half times the TTL, and another one waits; then with the library's call to renew."""
    trial.begin()
    other_s, _ = long_section(trial, "A", "B")
    if other_s is None:
        return (yes("still_held", s=LONG_S, ttl=TTL_S),)
    by_hand_s, renewed = long_section(trial, "C", "D", renew=True)
    if renewed and by_hand_s is None:
        return (Finding.of(CellAnswer.BY_HAND, "held_by_hand", s=LONG_S, ttl=TTL_S, other=other_s),)
    return (no("next_came", s=other_s, ttl=TTL_S),)


def long_section(trial: LockTrial, first: str, second: str, *, renew: bool = False) -> tuple[float | None, bool]:
    """When the second came in, in seconds after the first, and whether there is a call to renew; both release."""
    (holder,), (waiter,) = trial.contenders(first), trial.contenders(second)
    holder.take()
    began, offered = trial.now(), True
    wait = waiter.ask(HELD_TTL_S)
    deadline = time.monotonic() + LONG_S
    while offered and time.monotonic() < deadline and not (waiter.holds or wait.done()):
        trial.wait_until(lambda: waiter.holds or wait.done(), min(RENEW_S, max(deadline - time.monotonic(), 0.0)))
        if renew:
            response = answer(holder.send("renew"), RENEW_S)
            offered = response is None or response.offered
    require_waiting(waiter, wait)
    at = trial.first("holds", second)
    holder.release()
    answer(wait, FREED_S)
    waiter.release()
    return None if at is None else at - began, renew and offered


def killed(trial: LockTrial) -> tuple[Finding, ...]:
    """kill -9 of the holder's process while another one waits."""
    (holder,), (waiter,) = trial.contenders("A"), trial.contenders("B")
    trial.begin()
    holder.take()
    time.sleep(LATER_S)
    wait = waiter.ask()
    time.sleep(0.5)
    require_waiting(waiter, wait)
    began = trial.now()
    trial.note("killed", holder.name)
    holder.program.kill()
    response = answer(wait, FREED_S)
    if response is not None and response.error:
        return (no("waiter_raised", error=brief(response.error)),)
    at = trial.first("holds", "B")
    if at is None:
        return (no("never_free", s=FREED_S),)
    is_late = at - began > TTL_S + 2 * SLACK_S + trial.lag_s
    return (partly("free_late", s=at - began, ttl=TTL_S) if is_late else yes("free", s=at - began, ttl=TTL_S),)


def paused(trial: LockTrial) -> tuple[Finding, ...]:
    """The holder is paused past its TTL; when it wakes it writes and, later, releases what is another one's by now."""
    (holder,), (waiter, second, third) = trial.contenders("A"), trial.contenders("B", "C", "D")
    trial.begin()
    holder.take()
    wait = waiter.ask(NEXT_TTL_S)
    time.sleep(0.3)
    require_waiting(waiter, wait)
    trial.note("paused", holder.name)
    holder.program.pause()
    if not trial.wait_until(lambda: waiter.holds or wait.done(), FREED_S):
        second.acquire(NEXT_TTL_S, timeout=0)  # if it is free, and the waiter did not see it
    require_waiting(waiter, wait)
    write = holder.send("write", file=str(trial.file))
    trial.note("resumed", holder.name)
    holder.program.resume()
    if not (waiter.holds or second.holds):
        return BLOCKS, BLOCKS
    response = answer(write, TOLD_S)
    wrote = bool(response and response.result and response.result["wrote"])
    trial.note("writes" if wrote else "told", holder.name)
    offered, told_s = time_told(holder, trial) if wrote else (True, 0.0)
    late = holder.release()
    third.ask(HELD_TTL_S)
    robbed = trial.wait_until(lambda: third.holds or (second.holds and waiter.holds), 2.0)
    refused = late is not None and late.refused
    told = yes("told_before") if not wrote else judge_told(partly("told_after", s=told_s), told_s, offered, refused)
    return told, no("robbed") if robbed else yes("not_robbed")


def key_deleted(trial: LockTrial) -> tuple[Finding, ...]:
    """The key is deleted by hand while the lock is held."""
    (holder,) = trial.contenders("A")
    trial.begin()
    holder.take(HELD_TTL_S)
    trial.store.delete(trial.name)
    trial.note("deleted")
    offered, told_s = time_told(holder, trial)
    response = holder.release() if told_s is None else None
    refused = response is not None and response.refused
    return (judge_told(yes("told", s=told_s), told_s, offered, refused),)


def judge_told(told: Finding, told_s: float | None, offered: bool, refused: bool) -> Finding:
    """`told` if the library said in time that the lock is lost, else how it came out."""
    if told_s is not None:
        return told
    if refused:
        return partly("told_by_release")
    return no("never_told") if offered else NOT_OFFERED


def time_told(holder: TrialContender, trial: LockTrial) -> tuple[bool, float | None]:
    """Ask the library until it says that the lock is lost: whether it can be asked, and after how many seconds."""
    began = time.monotonic()
    while time.monotonic() < began + TOLD_S:
        response = holder.held()
        if response is not None and not response.offered:
            return False, None
        if response is not None and response.refused:
            trial.note("told", holder.name)
            return True, time.monotonic() - began
        time.sleep(0.1)
    return True, None
