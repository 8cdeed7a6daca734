"""The server is killed and comes back, the connection is cut and heals, an answer is lost."""

from __future__ import annotations

import time
from abc import abstractmethod
from concurrent.futures import Future

from labs.libraries.cases.case import SLACK_S, CellAnswer, Evidence, Finding, LockCase, no, partly, yes
from labs.libraries.program import Response
from labs.libraries.trial import POLL_S, CaseFailed, LockTrial, TrialContender, answer, require_waiting

LONG_TTL_S = 15  # longer than all that happens before the release
LOST_TTL_S = 6
AWAY_S = 0.7
WATCHED_S = 3.0  # after it came back
SERVED_S = 20.0
AGAIN_S = 0.5
RANK = (CellAnswer.NO, CellAnswer.PARTLY, CellAnswer.YES)


class _Broken(LockCase):
    """One holds, one waits, something breaks and heals; then the lock is released."""

    proxied = False

    @abstractmethod
    def fail(self, trial: LockTrial) -> None:
        """Break it."""

    @abstractmethod
    def heal(self, trial: LockTrial) -> None:
        """Mend it."""

    def drive(self, trial: LockTrial) -> Evidence:
        (holder,) = trial.contenders("A", proxied=self.proxied)
        waiter, third = trial.contenders("B", "C", proxied=self.proxied)
        trial.begin()
        holder.take(LONG_TTL_S)
        wait = waiter.ask(LONG_TTL_S)
        time.sleep(0.5)
        require_waiting(waiter, wait)
        self.fail(trial)
        time.sleep(AWAY_S)
        self.heal(trial)
        trial.wait_until(lambda: waiter.holds or wait.done(), WATCHED_S)
        failed = wait.done() and not waiter.holds
        if failed:  # it is told, and tries again
            wait = insist(third, third.ask(LONG_TTL_S), WATCHED_S)
        other = waiter.holds or third.holds
        response = holder.held()
        told = response is not None and (response.result is False or bool(response.error))
        if told:
            trial.note("told", holder.name)
        began = time.monotonic()
        if not other:
            holder.release()
            insist(third if failed else waiter, wait, SERVED_S)
        return {
            "other": other,
            "told": told,
            "failed": trial.history.first(waiter.name, "fails") is not None,
            "served": waiter.holds or third.holds,
            "served_s": time.monotonic() - began,
        }

    def findings(self, evidence: Evidence) -> tuple[Finding, Finding]:
        """Of the holder, and of the waiter."""
        if not evidence["other"]:
            holder = yes("stays_alone")
        else:
            holder = partly("lost_and_told") if evidence["told"] else no("two_hold")
        if not evidence["served"]:
            return holder, no("waits_on", s=SERVED_S)
        return holder, partly("wait_fails") if evidence["failed"] else yes("served")


def insist(contender: TrialContender, wait: Future[Response], seconds: float) -> Future[Response]:
    """Wait for the lock, and ask again where a request failed; the request that is under way in the end."""
    deadline = time.monotonic() + seconds
    while not contender.holds and time.monotonic() < deadline:
        if wait.done():
            time.sleep(AGAIN_S)
            wait = contender.ask(LONG_TTL_S)
        time.sleep(POLL_S)
    return wait


class Restart(_Broken):
    """kill -9 of the server, and a start with what it has on disk."""

    name = "restart"
    columns = ("restart_held", "restart_waiting")

    def fail(self, trial: LockTrial) -> None:
        trial.note("server_killed")
        trial.store.kill()

    def heal(self, trial: LockTrial) -> None:
        trial.store.restart()
        trial.note("server_back")

    def judge(self, evidence: Evidence) -> tuple[Finding, ...]:
        return self.findings(evidence)


class Cut(_Broken):
    """Connections are reset, new ones refused for a while."""

    name = "cut"
    columns = ("cut",)
    proxied = True

    def fail(self, trial: LockTrial) -> None:
        trial.note("cut", "network")
        trial.store.proxies.refuse()

    def heal(self, trial: LockTrial) -> None:
        trial.store.proxies.start()
        trial.note("healed", "network")

    def judge(self, evidence: Evidence) -> tuple[Finding, ...]:
        return (min(self.findings(evidence), key=lambda finding: RANK.index(finding.answer)),)


class LostAnswer(LockCase):
    """The server has written the key; the connection breaks before its answer arrives."""

    name = "lost-answer"
    columns = ("lost_answer",)

    def drive(self, trial: LockTrial) -> Evidence:
        (asker,), (other,) = trial.contenders("A", proxied=True), trial.contenders("B")
        asker.take(LOST_TTL_S)  # so that what follows is the request for the lock alone
        asker.release()
        other.take(LOST_TTL_S)
        other.release()
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
            raise CaseFailed(f"{other.name} failed: {response.error}")
        return {
            "written": written,
            "acquired": acquired,
            "answered": wait.done(),
            "answered_s": answered_s,
            "other": other.holds,
            "free_s": time.monotonic() - began - answered_s,
            "lag_s": trial.lag_s,
        }

    def judge(self, evidence: Evidence) -> tuple[Finding, ...]:
        if not evidence["written"]:
            return (partly("not_tried"),)
        if not evidence["answered"]:
            return (no("waits_for_itself", s=evidence["answered_s"]),)
        slack_s = 1.0 + SLACK_S + evidence["lag_s"]
        if evidence["acquired"]:
            if evidence["other"]:
                return (no("second_holder"),)
            if evidence["answered_s"] > 1.0 + slack_s:
                return (partly("waited_for_itself", s=evidence["answered_s"]),)
            return (yes("acquired_all_the_same"),)
        if not evidence["other"] or evidence["free_s"] > slack_s:
            return (no("held_by_nobody", s=evidence["free_s"]),)
        return (yes("failed_and_left_nothing"),)
