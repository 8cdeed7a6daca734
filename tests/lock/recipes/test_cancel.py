"""Mutex.cancel and interrupts: a woken waiter leaves no key, and no other place is touched."""

from __future__ import annotations

import itertools
import math
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lock import Client, LockCancelled, Mutex, Session
from lock.queue.wait_queue import WaitQueue
from lock.runtime.execution import run_blocking
from tests.support.lock import WAIT_S, keys
from tests.support.waiting import wait_until


def test_a_cancellation_that_comes_with_the_turn_is_too_late(session: Session) -> None:
    """Between the turn and the return of acquire, cancel changes nothing: the hold is good, and not lost."""
    acquisition = Mutex(session, "cancel/late").new_acquisition()
    with run_blocking(acquisition.run, math.inf) as hold:
        acquisition.cancel()
        hold.ensure()
        assert not hold.lost.is_set()


def test_a_hold_is_never_cancelled_whatever_the_moment(client: Client, session: Session) -> None:
    """Under a storm of cancellations an acquisition either raises LockCancelled or returns a hold that is good."""
    mutex, over, counter = Mutex(session, "cancel/storm"), threading.Event(), []

    def storm() -> None:
        while not over.wait(0.001):
            mutex.cancel()

    def work(_: int) -> str:
        try:
            with mutex.acquire(timeout=WAIT_S) as hold:
                counter.append(hold.token)
                hold.ensure()
                return "held"
        except LockCancelled:
            return "cancelled"

    with ThreadPoolExecutor(9) as pool:
        storming = pool.submit(storm)
        outcomes = list(pool.map(work, range(300)))
        over.set()
        storming.result(WAIT_S)
    assert outcomes.count("held") == len(counter)
    assert counter == sorted(set(counter))
    wait_until(lambda: keys(client, "cancel/storm") == [])


def test_an_attempt_that_was_cancelled_meanwhile_is_no_hold(
    client: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that drains while the answer to a try is out gets no hold from it, and no key is left."""
    ask = session.client.ask

    async def drain_meanwhile(*args: Any, **options: Any) -> Any:
        session.cancel_waiters()
        return await ask(*args, **options)

    monkeypatch.setattr(session.client, "ask", drain_meanwhile)
    with pytest.raises(LockCancelled):
        Mutex(session, "cancel/try").try_acquire()
    wait_until(lambda: not keys(client, "cancel/try"))


@pytest.mark.parametrize(("place", "step"), [(Session, "delete"), (WaitQueue, "remove")])
def test_an_interrupt_while_withdrawing_leaves_no_key(
    client: Client, session: Session, stranger: Session, monkeypatch: pytest.MonkeyPatch, place: type, step: str
) -> None:
    """A wait that is over deletes its key although Ctrl-C comes just then."""
    step_of, calls = getattr(place, step), itertools.count(1)

    def interrupted_once(*args: Any, **options: Any) -> Any:
        if next(calls) == 1:
            raise KeyboardInterrupt
        return step_of(*args, **options)

    with Mutex(stranger, "cancel/withdraw").acquire(timeout=WAIT_S) as hold:
        monkeypatch.setattr(place, step, interrupted_once)
        with pytest.raises(KeyboardInterrupt):
            Mutex(session, "cancel/withdraw").acquire(timeout=0.3)
        wait_until(lambda: keys(client, "cancel/withdraw") == [hold.key])


def test_an_interrupt_while_waiting_leaves_no_key(client: Client, session: Session, stranger: Session) -> None:
    """KeyboardInterrupt in the middle of a wait takes the key away; the holder is undisturbed (pitfall 18)."""
    mutex = Mutex(session, "cancel/interrupt")
    with Mutex(stranger, "cancel/interrupt").acquire(timeout=WAIT_S) as hold, ThreadPoolExecutor(1) as pool:

        def interrupt() -> None:
            wait_until(lambda: len(keys(client, mutex.name)) == 2)
            os.kill(os.getpid(), signal.SIGINT)

        interrupting = pool.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            mutex.acquire(timeout=WAIT_S)
        interrupting.result(WAIT_S)
        wait_until(lambda: keys(client, mutex.name) == [hold.key])
        hold.ensure()


def test_an_interrupt_while_releasing_leaves_no_key(
    client: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KeyboardInterrupt in the middle of a release reaches the caller, and the janitor deletes the key (pitfall 18)."""
    hold = Mutex(session, "cancel/release").acquire(timeout=WAIT_S)

    def interrupt(*args: Any, **options: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "delete", interrupt)
    with pytest.raises(KeyboardInterrupt):
        hold.release()
    wait_until(lambda: keys(client, "cancel/release") == [])
