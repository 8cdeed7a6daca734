"""What waiting costs, and how fast a free lock is: measured while nothing else runs, not judged."""

from __future__ import annotations

import time

from labs.libraries.cases.case import NOT_OFFERED, Evidence, Finding, LockCase, figure
from labs.libraries.trial import LockTrial, answer

TTL_S = 60
SETTLED_S = 6.0
COUNTED_S = 5.0


class Waiters(LockCase):
    """Many wait in one process for a lock that stays held."""

    name = "waiters"
    columns = ("waiters",)
    alone = True
    number = 200

    def drive(self, trial: LockTrial) -> Evidence:
        (holder,) = trial.contenders("A")
        waiters = trial.contenders(*(f"W{number}" for number in range(1, self.number + 1)))
        trial.begin()
        holder.take(TTL_S)
        for waiter in waiters:
            waiter.ask(TTL_S)
        time.sleep(SETTLED_S)
        before, began = trial.store.requests(), time.monotonic()
        time.sleep(COUNTED_S)
        served, seconds = trial.store.requests() - before, time.monotonic() - began
        failed = sum(event.what == "fails" for event in trial.history.events)
        threads = waiters[0].program.threads()
        return {"requests_s": served / seconds, "threads": threads, "failed": failed}

    def judge(self, evidence: Evidence) -> tuple[Finding, ...]:
        requests, threads, failed = round(evidence["requests_s"]), evidence["threads"], evidence["failed"]
        if failed:
            return (figure("cost_failed", requests=requests, threads=threads, failed=failed),)
        return (figure("cost", requests=requests, threads=threads),)


class Speed(LockCase):
    """One contender locks and unlocks a name that nobody else wants."""

    name = "speed"
    columns = ("speed",)
    alone = True

    def drive(self, trial: LockTrial) -> Evidence:
        (contender,) = trial.contenders("A")
        trial.begin()
        contender.take(TTL_S)
        contender.release()
        response = answer(contender.send("repeat", name=trial.name, ttl=TTL_S, seconds=3.0), 30.0)
        return {"per_s": response.result if response else None}

    def judge(self, evidence: Evidence) -> tuple[Finding, ...]:
        per_s = evidence["per_s"]
        return (NOT_OFFERED if per_s is None else figure("speed", per_s=round(per_s)),)
