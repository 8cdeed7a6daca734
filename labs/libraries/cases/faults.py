"""The server is killed and comes back, the connection is cut and heals, an answer is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future

from labs.libraries.cases.case import SLACK_S, CellAnswer, Finding, no, partly, yes
from labs.libraries.program import NotTried, Response
from labs.libraries.trial import POLL_S, SERVER, LockTrial, TrialContender, answer, require_waiting

LONG_TTL_S = 15  # longer than all that happens before the release
LOST_TTL_S = 6
AWAY_S = 0.7
WATCHED_S = 3.0  # after it came back
SERVED_S = 20.0
AGAIN_S = 0.5
Step = tuple[str, Callable[[], object]]  # an event, and what brings it about


def restart(trial: LockTrial) -> tuple[Finding, ...]:
    """kill -9 of the server, and a start with what it has on disk."""
    return broken(trial, SERVER, ("server_killed", trial.store.kill), ("server_back", trial.store.restart))


def cut(trial: LockTrial) -> tuple[Finding, ...]:
    """Connections are reset, new ones refused for a while; the graver of both findings counts."""
    proxies = trial.store.proxies
    found = broken(trial, "network", ("cut", proxies.refuse), ("healed", proxies.start), proxied=True)
    return (min(found, key=lambda finding: [*CellAnswer].index(finding.answer)),)


def broken(trial: LockTrial, actor: str, fail: Step, heal: Step, *, proxied: bool = False) -> tuple[Finding, Finding]:
    """One holds, one waits, something breaks and heals; then the lock is released."""
    (holder,) = trial.contenders("A", proxied=proxied)
    waiter, third = trial.contenders("B", "C", proxied=proxied)
    trial.begin()
    holder.take(LONG_TTL_S)
    wait = waiter.ask(LONG_TTL_S)
    time.sleep(0.5)
    require_waiting(waiter, wait)
    trial.note(fail[0], actor)
    fail[1]()
    time.sleep(AWAY_S)
    heal[1]()
    trial.note(heal[0], actor)
    trial.wait_until(lambda: waiter.holds or wait.done(), WATCHED_S)
    failed = wait.done() and not waiter.holds
    if failed:  # it is told, and tries again
        wait = insist(third, third.ask(LONG_TTL_S), WATCHED_S)
    other = waiter.holds or third.holds
    response = holder.held()
    told = response is not None and response.refused
    if told:
        trial.note("told", holder.name)
    if not other:
        holder.release()
        insist(third if failed else waiter, wait, SERVED_S)
    failed = trial.first("fails", waiter.name) is not None
    return judge_broken(other=other, told=told, failed=failed, served=waiter.holds or third.holds)


def judge_broken(*, other: bool, told: bool, failed: bool, served: bool) -> tuple[Finding, Finding]:
    """Judge the holder, whether or not another one came in meanwhile, and the waiter."""
    lost = partly("lost_and_told") if told else no("two_hold")
    holder = lost if other else yes("stays_alone")
    if not served:
        return holder, no("waits_on", s=SERVED_S)
    return holder, partly("wait_fails") if failed else yes("served")


def insist(contender: TrialContender, wait: Future[Response], seconds: float) -> Future[Response]:
    """Wait for the lock, and ask again if a request failed; the request that is under way in the end."""
    deadline = time.monotonic() + seconds
    while not contender.holds and time.monotonic() < deadline:
        if wait.done():
            time.sleep(AGAIN_S)
            wait = contender.ask(LONG_TTL_S)
        time.sleep(POLL_S)
    return wait


def lost_answer(trial: LockTrial) -> tuple[Finding, ...]:
    """The server has written the key; the connection breaks before its answer arrives."""
    (asker,), (other,) = trial.contenders("A", proxied=True), trial.contenders("B")
    for contender in (asker, other):  # so that what follows is the request for the lock alone
        contender.take(LOST_TTL_S)
        contender.release()
    trial.wait_until(lambda: not trial.keys(), 3.0)
    trial.begin()
    trial.store.proxies.slow_down(0.4, 0)
    wait = asker.ask(LOST_TTL_S)
    written = trial.wait_until(lambda: bool(trial.keys()), 10.0)
    trial.store.proxies.reset()
    trial.note("answer_lost", "network")
    trial.store.proxies.slow_down(0, 0)
    began = time.monotonic()
    answer(wait, SERVED_S)
    answered_s, acquired = time.monotonic() - began, asker.holds
    response = other.acquire(LOST_TTL_S, within=1.5 if acquired else SERVED_S)
    if response is not None and response.error:
        raise NotTried(f"{other.name} failed: {response.error}")
    if not written:
        return (partly("not_tried"),)
    if not wait.done():
        return (no("waits_for_itself", s=answered_s),)
    free_s = time.monotonic() - began - answered_s if other.holds else None
    return (judge_lost(acquired=acquired, answered_s=answered_s, free_s=free_s, lag_s=trial.lag_s),)


def judge_lost(*, acquired: bool, answered_s: float, free_s: float | None, lag_s: float) -> Finding:
    """How the request ended, and after how many seconds another one had the lock; `None` if it did not get it."""
    slack_s = 1.0 + SLACK_S + lag_s
    if acquired and free_s is not None:
        return no("second_holder")
    if acquired:
        if answered_s > 1.0 + slack_s:
            return partly("waited_for_itself", s=answered_s)
        return yes("acquired_all_the_same")
    if free_s is None or free_s > slack_s:
        return no("held_by_nobody", s=SERVED_S if free_s is None else free_s)
    if answered_s > 1.0 + slack_s:
        return partly("failed_late", s=answered_s)
    return yes("failed_and_left_nothing")
