"""The locks in etcd that a guard acquires: one key for each purchase, or one for each instance."""

from __future__ import annotations

from collections import deque

from loadtest.simulate.machine import LEAD, LOCK_TIMEOUT, TURN, Steps, Ticket
from loadtest.simulate.rush import SimulatedInstance


class Mutex:
    """One acquisition of the lock."""

    def __init__(self, instance: SimulatedInstance) -> None:
        self._instance = instance

    def acquire(self, began: float) -> Steps:
        """Wait for the turn; how the wait ended."""
        self._key = self._instance.ticket(began)
        how = yield from self._instance.queue(self._key)
        if how != TURN:
            yield self._instance.delete(self._key)
        return how

    def release(self) -> Steps:
        """Let the next one in: at once, if it is of this instance."""
        passed = self._instance.rush.queue.pass_on(self._instance)
        yield self._instance.delete(self._key, urgent=not passed)


class Cohort:
    """The lock that an instance hands along inside; see `lock/recipes/cohort.py`."""

    def __init__(self, instance: SimulatedInstance) -> None:
        self._instance, self._rush = instance, instance.rush
        self._waiting: deque[Ticket] = deque()
        self._busy, self._turns, self._since = False, 0, 0.0
        self._key: Ticket | None = None
        self._given_up = self._rush.env.event()

    def acquire(self, began: float) -> Steps:
        """Wait for a turn; how the wait ended."""
        waiter = self._instance.ticket(began)
        self._waiting.append(waiter)
        self._busy = self._busy or self._call(LEAD)
        how = yield waiter.turn
        if how == LEAD:
            how = yield from self._lead(began)
            self._turns, self._since = 0, self._rush.env.now
            if how != TURN and not (how == LOCK_TIMEOUT and self._call(LEAD)):  # or else the next one has the key
                yield from self._give_up()
        return how

    def _lead(self, began: float) -> Steps:
        key = self._key
        if key is None:
            key = self._key = self._instance.ticket(began)
            how = yield from self._instance.queue(key)
        else:
            key.turn = self._rush.env.event()
            how = yield self._instance.await_turn(key, began).turn
        return TURN if how == LOCK_TIMEOUT and key.told else how  # the turn may have come with the very write

    def release(self) -> Steps:
        """Hand the turn on, or the lock back."""
        settings, env = self._rush.costs.settings, self._rush.env
        left = max(settings["cohort_slice_s"] - (env.now - self._since), 0.0)
        contended = self._rush.queue.contended(self._instance)
        self._turns += 1
        spent = self._turns >= settings["cohort_turns"] or not left
        if (spent and contended) or not self._call(TURN):
            yield from self._give_up()
        elif contended:
            yield self._given_up | env.timeout(left)

    def _give_up(self) -> Steps:
        given_up, self._given_up = self._given_up, self._rush.env.event()
        assert self._key is not None
        gone, self._key = self._instance.delete(self._key), None
        self._busy = self._call(LEAD)
        yield gone
        given_up.succeed()

    def _call(self, how: str) -> bool:
        """Wake the first that waits, if there is one."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if waiter.waits:
                waiter.end(how)
                return True
        return False


def cohort_of(instance: SimulatedInstance) -> Cohort:
    """The one of the instance."""
    cohort: Cohort = instance.cohort or Cohort(instance)
    instance.cohort = cohort
    return cohort
