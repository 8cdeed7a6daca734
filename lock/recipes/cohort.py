"""A mutex that threads of one process hand to each other without asking etcd.

Between processes a hold passes as with `Mutex`: first come, first served. Inside the process that holds it, it passes
from thread to thread, in their order, for as long as no other process waits; then for at most `batch` turns or `slice`
seconds. So another process at the head of the queue waits for at most `slice`, one critical section and one hand-over.

The idea is that of cohort locks (D. Dice, V. Marathe, N. Shavit, "Lock Cohorting", PPoPP 2012).

The process queues with one key, and one of its threads, the leader, waits for it. A leader that gives up leaves the key
to the next one, so the process keeps its place.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from functools import partial
from typing import Any

from lock.core.acquisition import Acquisition
from lock.errors import EtcdUnavailable, LockCancelled, LockError, LockTimeout, NotHeld
from lock.model import Contender
from lock.recipes.cancellation import CancelToken
from lock.recipes.mutex import Mutex
from lock.recipes.queued_lock import Acquirable, check_keywords
from lock.recipes.turn import Turn, Turns, Waiter
from lock.runtime.clock import check_number, deadline, now
from lock.runtime.interrupts import run_uninterrupted
from lock.session.session import Session


class CohortMutex(Acquirable[Turn]):
    """One name, locked by the threads of this process in turns; one object per name and process, shared by the threads.

    Args:
        session: the process's session.
        name: as for `Mutex`.
        batch: turns of one hold after which it goes to another process, if one waits.
        slice: seconds of one hold after which it goes to another process, if one waits; a turn is not cut short.
        together: whether, while another process waits, the release of a turn returns only when the hold is given up, or
            after `slice`. What a thread does after its turn takes the interpreter from the turns that follow. A thread
            that has much to do then, such as an answer to write, had better do it while the other process holds.

    Raises:
        ValueError: `batch` is less than 1, or `slice` is negative; others as `Mutex`.
    """

    def __init__(
        self, session: Session, name: str, *, batch: int = 64, slice: float = 0.05, together: bool = False
    ) -> None:
        check_number(batch, lambda turns: turns >= 1, "batch is a number of turns, 1 or more")
        check_number(slice, lambda seconds: seconds >= 0, "slice is seconds, 0 or more")
        super().__init__(session, f"a turn of lock {name!r}")
        self.name = name
        self._engine = session._engine
        self._mutex = Mutex(session, name)
        self._turns_of = partial(Turns, session, batch=batch, slice=slice)
        self._together = together
        self._lock = threading.Lock()
        self._waiters: deque[Waiter] = deque()
        self._busy = False  # whether a thread leads or has its turn
        self._acquisition: Acquisition | None = None  # the key of the process, from queueing to release
        self._outage: EtcdUnavailable | None = None  # why the last leader got no place in the queue

    def acquire(self, *_wrong: Any, timeout: float | None = None, cancel: CancelToken | None = None) -> Turn:
        """Wait for a turn; use the result in ``with``, or release it.

        Arguments and errors are those of `Mutex.acquire`.
        """
        check_keywords(_wrong)
        self.session.client.check_process()
        until = deadline(timeout)
        waiter = Waiter()
        try:
            if cancel is not None:
                cancel.add(waiter, lambda: self._cancel([waiter]))
            run_uninterrupted(self._queue, waiter)
            waiter.called.wait(until - now())
            turn = self._proceed(waiter, until)
            turn.keep_in(self.holds_here())
            return turn
        except BaseException:
            run_uninterrupted(self._leave, waiter)
            raise
        finally:
            if cancel is not None:
                cancel.discard(waiter)

    def cancel(self) -> None:
        """As `Mutex.cancel`; a turn goes on."""
        self.session.client.check_process()
        run_uninterrupted(lambda: self._cancel(list(self._waiters)))

    def locked(self) -> bool:
        """Whether it is held at this moment, by any client; see `Mutex.locked`."""
        return self._mutex.locked()

    def contenders(self) -> list[Contender]:
        """Holders and waiters over all processes; the threads of a process share its one key."""
        return self._mutex.contenders()

    def _queue(self, waiter: Waiter) -> None:
        with self._lock:
            self._waiters.append(waiter)
            if not self._busy:
                self._appoint_leader()

    def _cancel(self, waiters: list[Waiter]) -> None:
        with self._lock:
            cancelled = [waiter for waiter in waiters if waiter.turn is None]
            # Those that don't lead get no turn, even if one comes before they wake.
            self._waiters = deque(each for each in self._waiters if each.leads or each not in cancelled)
            for waiter in cancelled:
                waiter.cancelled = True
                waiter.called.set()
            acquisition = self._acquisition if any(waiter.leads for waiter in cancelled) else None
        if acquisition is not None:
            self._mutex.cancel_all([acquisition])  # which leaves a hold alone

    def _proceed(self, waiter: Waiter, until: float) -> Turn:
        with self._lock:
            if waiter.turn is not None:
                return waiter.turn
            leads, acquisition = waiter.leads, self._acquisition
        if waiter.cancelled:
            self.session.ensure()
            raise LockCancelled(f"the wait for lock {self.name!r} was cancelled")
        if not leads:
            raise self._timed_out(waiter, acquisition)
        return self._lead(waiter, acquisition or self._begin(waiter), until)

    def _begin(self, waiter: Waiter) -> Acquisition:
        """A key for the process; made without our lock, as the thread that finds the session lost calls `_cancel`."""
        acquisition = self._mutex.start(self, now(), keeps_place=True)
        self._mutex.stop(acquisition)  # `cancel` of this object is what ends its wait
        with self._lock:
            self._acquisition = acquisition
            cancelled = waiter.cancelled
        if cancelled:
            self._mutex.cancel_all([acquisition])
        return acquisition

    def _timed_out(self, waiter: Waiter, acquisition: Acquisition | None) -> LockError:
        outage = self._outage
        if outage is not None:
            return EtcdUnavailable(f"lock {self.name!r} not acquired in time; another thread was told: {outage}")
        if acquisition is not None:
            return self._engine.time_out(acquisition, waiter.since)
        return LockTimeout(f"lock {self.name!r} not acquired in time; other threads of this process wait for it too")

    def _lead(self, waiter: Waiter, acquisition: Acquisition, until: float) -> Turn:
        """Wait for the key on behalf of all threads of the process, and take the first turn."""
        acquisition.extend(until, waiter.since)
        try:
            self._engine.acquire(acquisition)
            return run_uninterrupted(self._first_turn, waiter, acquisition)
        except LockTimeout:
            raise  # the key keeps its place for the next leader
        except BaseException as error:
            self._outage = error if isinstance(error, EtcdUnavailable) else None
            waiter.cancelled = True
            raise

    def _first_turn(self, waiter: Waiter, acquisition: Acquisition) -> Turn:
        self._outage = None
        with self._lock:
            self._waiters.remove(waiter)  # fails if it was interrupted and has left: the key goes with it
            hold = self._mutex.finish(acquisition, self, [])
            waiter.turn = self._turns_of(hold, self._end).next()
        # Lost, maybe with the session: the threads behind a turn are told before that has ended.
        if not self._engine.on_session_lost(self._lost):
            self._lost()
        return waiter.turn

    def _lost(self) -> None:
        self._cancel(list(self._waiters))

    def _leave(self, waiter: Waiter) -> None:
        """A wait has ended with an error."""
        abandoned = None
        with self._lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            turn = waiter.turn
            if waiter.leads and turn is None:
                self._appoint_leader()
                if waiter.cancelled or not self._waiters:  # or else the next leader takes it over
                    abandoned, self._acquisition = self._acquisition, None
        if abandoned is not None:
            self._engine.abandon(abandoned)
        if turn is not None:  # an interrupt came together with the turn
            with contextlib.suppress(LockError):
                turn.release()

    def _end(self, turn: Turn) -> None:
        """Hand the hold to the next thread, or give it back to etcd."""
        turns = turn.turns
        with self._lock:
            if turn.released:
                raise NotHeld(f"this turn of lock {self.name!r} was ended before")
            turn.forget()
            goes_on = bool(self._waiters) and not self.session.draining and turns.may_go_on()
            if goes_on:
                following = self._waiters.popleft()
                following.turn = turns.next()
                following.called.set()
                pause = turns.slice_left() if self._together and turns.hold.contended() else 0.0
            else:
                self._acquisition = None
                self._appoint_leader()
        if goes_on:
            turns.given_up.wait(pause)  # out of the way of the turns that follow
            return
        turns.give_up()

    def _appoint_leader(self) -> None:
        """Have the thread that waits longest wait for the key, if there is one; with the lock held."""
        self._busy = bool(self._waiters)
        if self._waiters:
            self._waiters[0].leads = True
            self._waiters[0].called.set()
