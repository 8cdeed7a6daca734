"""KeyboardInterrupt at every call on the way through a lock: where Python raises it, one after the other."""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import Any

import pytest

import lock
from lock import Client, CohortMutex, Hold, LockCancelled, MultiLock, Mutex, NotHeld, ReentrantMutex, Session, Turn
from lock.core import following
from lock.core.queue import Stage
from lock.runtime.interrupts import InterruptSafeEvent, _kept
from tests.support.lock import WAIT_S, keys, lock_threads
from tests.support.waiting import Patch, assert_raises, in_thread, wait_until

LIBRARY = str(Path(lock.__file__).parent)
EVENTS = str(threading.__file__)


@pytest.mark.usefixtures("no_garbage_collector")
@pytest.mark.parametrize(
    "make",
    [ReentrantMutex, lambda session, name: MultiLock(session, [f"{name}/a", f"{name}/b"])],
    ids=["ReentrantMutex", "MultiLock"],
)
def test_an_interrupt_at_any_call_leaves_no_key(
    client: Client, session: Session, name: str, make: Callable[[Session, str], Mutex | MultiLock]
) -> None:
    """However far acquire, `with` and release have come: in the end the name is free, and its queue empty."""
    locks = []  # they live on, and with them what they know of their holds
    for number, interrupt in at_each_call(more_than=20):
        locks.append(make(session, f"{name}/{number}"))
        interrupt(partial(lock_and_release, locks[-1]))
        with contextlib.suppress(NotHeld):  # as with `threading.Lock`: it may have come right after the acquisition
            locks[-1].release()
    wait_until(lambda: not keys(client, name))
    wait_until(lambda: not session._engine.core.tickets)


@pytest.mark.usefixtures("no_garbage_collector")
@pytest.mark.parametrize(
    "make", [Mutex, ReentrantMutex, lambda session, name: MultiLock(session, [f"{name}/a", f"{name}/b"])]
)
def test_an_interrupt_at_any_line_leaves_no_hold(
    session: Session, name: str, make: Callable[[Session, str], Mutex | MultiLock], monkeypatch: Patch
) -> None:
    """All of it is given back, but where the first line of `__enter__` or `__exit__` has not run: see docs/lock.md."""
    monkeypatch.setattr(session._engine.core.reconciler, "_period", 0.05)  # what finds an acquisition without a caller
    tickets, left = session._engine.core.tickets, list[str]()
    for number in itertools.count(1):
        lock = make(session, f"{name}/{number}")
        function = interrupted_at_line(partial(lock_and_release, lock), at=number)
        if function is None:
            break
        wait_until(lambda: not any(thread.is_busy for thread in _kept))  # or the next way has more lines
        session.ensure()  # what was noted is done
        wait_until(lambda: all(each.stage is Stage.HELD and each.waiter is None for each in tickets.values()))
        if tickets:
            left.append(function)
            lock.release()
        assert_raises(NotHeld, lock.current)  # or a reentrant one would be entered again, and not be locked
    assert number > 50
    assert left == ["__enter__", "__exit__", "__exit__"]


@pytest.mark.parametrize("make", [Mutex, CohortMutex])
def test_an_interrupt_at_any_call_of_a_wait_is_just_that(
    session: Session, name: str, make: Callable[[Session, str], Mutex | CohortMutex], monkeypatch: Patch
) -> None:
    """Also where the wait is Python's own and the turn comes: no other error, and the next one gets the lock."""
    monkeypatch.setattr(following, "AUDIT_S", 600.0)
    for number, interrupt in at_each_call(more_than=10, inside=(LIBRARY, EVENTS)):
        mutex = make(session, f"{name}/{number}")
        hold = in_thread(mutex.acquire, timeout=WAIT_S).result(WAIT_S)
        threading.Timer(0.01, hold.release).start()
        interrupt(partial(lock_and_release, mutex))
        with contextlib.suppress(NotHeld):
            mutex.release()
        in_thread(mutex.acquire, timeout=WAIT_S).result(WAIT_S).release()


@pytest.mark.parametrize("make", [Mutex, CohortMutex])
def test_an_interrupt_at_any_call_of_a_release_keeps_no_thread_waiting(
    session: Session, name: str, make: Callable[[Session, str], Mutex | CohortMutex], monkeypatch: Patch
) -> None:
    """However far it has come, the thread of this process that waits behind holds, and needs no audit for that."""
    monkeypatch.setattr(following, "AUDIT_S", 600.0)
    for number, interrupt in at_each_call(more_than=5, inside=(LIBRARY, EVENTS)):
        hold, waiting = held_and_wanted(make(session, f"{name}/{number}"))
        interrupt(hold.release)
        with contextlib.suppress(NotHeld):  # it had not begun: a caller that is interrupted there calls it again
            hold.release()
        waiting.result(WAIT_S).release()


@pytest.mark.parametrize("make", [Mutex, CohortMutex])
def test_an_interrupt_at_any_call_of_a_cancel_is_made_up_for_by_another(
    session: Session, name: str, make: Callable[[Session, str], Mutex | CohortMutex]
) -> None:
    """A thread that was not woken by the first is woken by the second."""
    for number, interrupt in at_each_call(more_than=5, inside=(LIBRARY, EVENTS)):
        mutex = make(session, f"{name}/{number}")
        hold, waiting = held_and_wanted(mutex)
        interrupt(mutex.cancel)
        mutex.cancel()
        assert_raises(LockCancelled, waiting.result, WAIT_S)
        hold.release()


def test_an_interrupt_at_any_call_of_closing_a_session_is_made_up_for_by_another(client: Client) -> None:
    """However far the first has come, after the second, as at the interpreter's end, no lease and no thread is left."""
    for _, interrupt in at_each_call(more_than=2, inside=(LIBRARY, EVENTS)):
        session = Session(client, ttl=60)
        interrupt(session.close)
        session.close()
        assert client.time_to_live(session.lease_id).ttl == -1
    wait_until(lambda: not lock_threads())


def test_an_interrupt_at_any_call_of_opening_a_session_leaves_no_lease(
    client: Client, etcdctl: Callable[..., str]
) -> None:
    """However far it has come, also where etcd grants the lease after that, lease and threads end by themselves."""
    before = set(etcdctl("lease", "list").split())
    for _, interrupt in at_each_call(more_than=5, inside=(LIBRARY, EVENTS, str(futures.__path__[0]))):
        opened: list[Session] = []
        interrupt(lambda: opened.append(Session(client, ttl=60)))  # noqa: B023
        for session in opened:
            session.close()
    wait_until(lambda: not lock_threads())
    assert set(etcdctl("lease", "list").split()[1:]) - before == set()


def lock_and_release(lock: Mutex | CohortMutex | MultiLock) -> None:
    with lock.acquire(timeout=WAIT_S):
        pass


def held_and_wanted(mutex: Mutex | CohortMutex) -> tuple[Hold | Turn, Future[Any]]:
    """A hold, and a thread of this process that waits behind it without an end."""
    hold = mutex.acquire(timeout=WAIT_S)
    waiting = in_thread(mutex.acquire)
    wait_until(lambda: mutex._cohort.waits if isinstance(mutex, CohortMutex) else hold.contended())
    return hold, waiting


def at_each_call(
    *, more_than: int, inside: tuple[str, ...] = (LIBRARY,)
) -> Iterator[tuple[int, Callable[[Callable[[], object]], None]]]:
    """A number, and what interrupts a call at that place; until it has no such place, after more than so many."""
    for number in itertools.count(1):
        has_place: list[bool] = []
        yield number, lambda call: has_place.append(interrupted(call, at=number, inside=inside))  # noqa: B023
        if not has_place.pop():
            assert number > more_than
            return


def interrupted(call: Callable[[], object], *, at: int, inside: tuple[str, ...]) -> bool:
    """Call it, interrupted where this thread enters the `at`-th function in these files; whether it has as many."""
    entered = itertools.count(1)

    def trace(frame: FrameType, event: str, arg: object) -> None:
        if frame.f_code.co_filename.startswith(inside) and not is_left_out(frame) and next(entered) == at:
            raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return next(entered) > at


def interrupted_at_line(call: Callable[[], object], *, at: int) -> str | None:
    """Call it, interrupted before the library's `at`-th line; the function that has it, None where there are fewer."""
    lines, functions = itertools.count(1), list[str]()

    def trace_lines(frame: FrameType, event: str, arg: object) -> Any:
        if event == "line" and not is_left_out(frame) and next(lines) == at:
            functions.append(frame.f_code.co_name)
            raise KeyboardInterrupt
        return trace_lines

    before = sys.gettrace()
    sys.settrace(lambda frame, *_: trace_lines if frame.f_code.co_filename.startswith(LIBRARY) else None)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return functions[0] if functions else None


def is_left_out(frame: FrameType | None) -> bool:
    """Whether this is called by a `__del__`, out of which Python lets no exception."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def test_a_signal_that_another_thread_is_handed_ends_a_wait() -> None:
    """Only the main thread handles signals, and nothing wakes it when the kernel chooses another thread."""
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    turn = InterruptSafeEvent()
    late = threading.Timer(WAIT_S, turn.set)
    late.start()
    main, waiting = threading.get_ident(), InterruptSafeEvent.wait.__code__

    def take_the_signal() -> None:
        wait_until(lambda: waiting in [each.f_code for each, _ in walk_stack(sys._current_frames()[main])])
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    try:
        in_thread(take_the_signal)
        assert_raises(KeyboardInterrupt, turn.wait, 2 * WAIT_S)
        assert not turn.is_set()
    finally:
        late.cancel()
        signal.signal(signal.SIGUSR1, before)
