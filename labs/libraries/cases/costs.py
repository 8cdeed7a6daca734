"""What waiting costs, and how fast a free lock is: measured while nothing else runs, not judged."""

from __future__ import annotations

import time

from labs.libraries.cases.case import NOT_OFFERED, Finding, figure
from labs.libraries.trial import LockTrial, answer

TTL_S = 60
SETTLED_S = 6.0
COUNTED_S = 5.0


def waiters(trial: LockTrial) -> tuple[Finding, ...]:
    """Many wait in one process for a lock that stays held."""
    (holder,) = trial.contenders("A")
    waiters = trial.contenders(*(f"W{number}" for number in range(1, trial.waiters + 1)))
    trial.begin()
    holder.take(TTL_S)
    for waiter in waiters:
        waiter.ask(TTL_S)
    time.sleep(SETTLED_S)
    before, began = trial.store.requests(), time.monotonic()
    time.sleep(COUNTED_S)
    requests = (trial.store.requests() - before) / (time.monotonic() - began)
    failed = sum(event.what == "fails" for event in trial.history.events)
    threads = waiters[0].program.threads()
    return (figure("cost_failed" if failed else "cost", requests=round(requests), threads=threads, failed=failed),)


def speed(trial: LockTrial) -> tuple[Finding, ...]:
    """One contender locks and unlocks a name that nobody else wants."""
    (contender,) = trial.contenders("A")
    trial.begin()
    contender.take(TTL_S)
    contender.release()
    response = answer(contender.send("repeat", name=trial.name, ttl=TTL_S, seconds=3.0), 30.0)
    if response is None or response.result is None:
        return (NOT_OFFERED,)
    return (figure("speed", per_s=round(response.result)),)
