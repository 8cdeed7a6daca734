"""KeyboardInterrupt at every call on the way through a lock: where Python raises it, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import signal
import sys
import threading
import time
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
from loadtest.stack.proxy import Proxy
from lock import (
    Client,
    CohortMutex,
    Hold,
    LockCancelled,
    MultiLock,
    Mutex,
    NotHeld,
    ReentrantMutex,
    Session,
    Turn,
    aio,
    connect,
)
from lock.core.queue import Queue
from lock.runtime.interrupts import InterruptSafeEvent
from tests.support.lock import AT_ONCE_S, WAIT_S, is_contended, keys, lock_threads
from tests.support.waiting import Patch, assert_raises, in_thread, wait_until

LIBRARY = str(Path(lock.__file__).parent)
EVENTS = str(threading.__file__)


MAY_LEAVE = {(f"__{each}__", True) for each in ("enter", "exit", "aenter", "aexit")}  # until its `try` has begun


def two_names(session: Session, name: str) -> MultiLock:
    return MultiLock(session, [f"{name}/a", f"{name}/b"])


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # an interrupt has dropped it
@pytest.mark.usefixtures("no_garbage_collector")
@pytest.mark.parametrize(
    ("make", "use"),
    [
        (Mutex, lambda mutex: lock_and_release(mutex)),
        (aio.Mutex, lambda mutex: run_until_complete(enter_as_task(mutex))),
        *(
            pytest.param(make, use, marks=pytest.mark.slow)
            for make, use in [
                (Mutex, lambda mutex: enter_and_leave(mutex)),
                (Mutex, lambda mutex: run_until_complete(in_loop(enter_and_leave, mutex))),
                (ReentrantMutex, lambda mutex: lock_and_release(mutex)),
                (two_names, lambda multi: lock_and_release(multi)),
                (aio.Mutex, lambda mutex: run_until_complete(lock_as_task(mutex))),
                (aio.Mutex, lambda mutex: run_until_complete(enter_a_hold(mutex))),
                (aio.Mutex, lambda mutex: run_and_close(enter_as_task(mutex))),
                (aio.ReentrantMutex, lambda mutex: run_and_close(enter_as_task(mutex))),
            ]
        ),
    ],
    ids=[
        "acquire", "async with", "with", "with in a loop", "ReentrantMutex", "MultiLock", "task, acquire",
        "async with a hold", "async with, tasks dropped", "reentrant, tasks dropped",
    ],
)  # fmt: skip
def test_an_interrupt_at_any_line_leaves_no_hold(
    session: Session, name: str, make: Callable[[Session, str], Any], use: Callable[[Any], None]
) -> None:
    """It is free soon, but at the first step of leaving, which is not in its `try` yet (docs/lock.md)."""
    tickets, left = session._engine.core.tickets, set[tuple[str, bool]]()

    def is_free() -> bool:
        if tickets:
            gc.collect()  # a task that was dropped with its loop
        return not tickets

    for number in itertools.count(1):
        lock = make(session, f"{name}/{number}")
        place = interrupted(partial(use, lock), at=number, by_line=True)
        if place is None:
            break
        try:
            wait_until(is_free, timeout=1.0 if place in MAY_LEAVE else WAIT_S)
        except AssertionError:
            left.add(place)
            for ticket in list(tickets.values()):
                session._engine.apply(session._engine.core.endings.leave, ticket)
        if not isinstance(lock, aio.AsyncLock):
            with contextlib.suppress(NotHeld):
                lock.release()
            assert_raises(NotHeld, lock.current)  # or a reentrant one would be entered again, and not be locked
    assert number > 50
    assert left <= MAY_LEAVE


@pytest.mark.parametrize("make", [Mutex, CohortMutex])
def test_an_interrupt_at_any_call_of_a_wait_is_just_that(
    session: Session, name: str, make: Callable[[Session, str], Mutex | CohortMutex], monkeypatch: Patch
) -> None:
    """Also where the wait is Python's own and the turn comes: no other error, and the next one gets the lock."""
    monkeypatch.setattr(Queue, "audit_s", 600.0)
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
    monkeypatch.setattr(Queue, "audit_s", 600.0)
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


def enter_and_leave(lock: Mutex | MultiLock) -> None:
    with lock:
        pass


async def in_loop(use: Callable[[Any], None], lock: Any) -> None:
    use(lock)


async def lock_as_task(lock: aio.Mutex) -> None:
    async with lock.acquire(timeout=WAIT_S):
        pass


async def enter_as_task(lock: Any) -> None:
    async with lock:
        pass


async def enter_a_hold(lock: aio.Mutex) -> None:
    async with await lock.acquire(timeout=WAIT_S):
        pass


def run_until_complete(coroutine: Any) -> None:
    """As a careful program does: what is left of its tasks ends with the loop."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(coroutine)
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True) if tasks else asyncio.sleep(0))
        loop.close()


def run_and_close(coroutine: Any) -> None:
    """As a careless program does, whose tasks are collected after their loop."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # "Task was destroyed but it is pending"
    try:
        loop.run_until_complete(coroutine)
    finally:
        loop.close()


def held_and_wanted(mutex: Mutex | CohortMutex) -> tuple[Hold | Turn, Future[Any]]:
    """A hold, and a thread of this process that waits behind it without an end."""
    hold = mutex.acquire(timeout=WAIT_S)
    waiting = in_thread(mutex.acquire)
    wait_until(lambda: mutex._cohort.waits if isinstance(mutex, CohortMutex) else is_contended(hold))
    return hold, waiting


def at_each_call(
    *, more_than: int, inside: tuple[str, ...] = (LIBRARY,)
) -> Iterator[tuple[int, Callable[[Callable[[], object]], None]]]:
    """A number, and what interrupts a call at that place; until it has no such place, after more than so many."""
    for number in itertools.count(1):
        has_place: list[bool] = []
        yield number, lambda call: has_place.append(bool(interrupted(call, at=number, inside=inside)))  # noqa: B023
        if not has_place.pop():
            assert number > more_than
            return


def interrupted(
    call: Callable[[], object], *, at: int, inside: tuple[str, ...] = (LIBRARY,), by_line: bool = False
) -> tuple[str, bool] | None:
    """Call it, interrupted where this thread enters the `at`-th function in these files, or before their `at`-th line.

    Its function, and whether that has just begun; None where there are fewer.
    """
    numbers, places = itertools.count(1), list[tuple[str, bool]]()

    def count(frame: FrameType) -> None:
        if next(numbers) == at:
            code = frame.f_code  # its first line is that of the `def`, which Python 3.10 leaves out
            body = list(dict.fromkeys(line for *_, line in code.co_lines() if line and line > code.co_firstlineno))
            places.append((code.co_name, frame.f_lineno in body[:2]))
            signal.raise_signal(signal.SIGINT)

    def trace_call(frame: FrameType, *_: object) -> Any:
        seen = set[int]()  # of a loop, the first round

        def trace_line(frame: FrameType, event: str, arg: object) -> Any:
            if event == "line" and frame.f_lineno not in seen:
                seen.add(frame.f_lineno)
                count(frame)
            return trace_line

        if not frame.f_code.co_filename.startswith(inside) or is_left_out(frame):
            return None
        if by_line:
            return trace_line
        count(frame)
        return None

    with contextlib.suppress(KeyboardInterrupt), traced(trace_call):
        call()
    return places[0] if places else None


@contextlib.contextmanager
def traced(trace: Callable[..., Any]) -> Iterator[None]:
    """What this thread does meanwhile is told to `trace`."""
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def is_left_out(frame: FrameType | None) -> bool:
    """Whether this is called by a `__del__`, out of which Python lets no exception."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


@pytest.mark.parametrize("request_of", ["a client", "an acquisition", "a release"])
def test_an_interrupt_ends_a_request_that_etcd_does_not_answer(proxy: Proxy, name: str, request_of: str) -> None:
    """Long before its timeout; what it has begun goes on, or is undone, once etcd answers again."""
    with connect(proxy.endpoint, timeout=60.0) as client, Session(client, ttl=600) as session:
        mutex = Mutex(session, name)
        calls: dict[str, Callable[[], object]] = {"a client": client.status, "an acquisition": mutex.acquire}
        call = calls.get(request_of) or mutex.acquire().release
        proxy.stall()
        main = threading.get_ident()

        def interrupt() -> float:
            wait_until(lambda: is_asking())
            signal.pthread_kill(main, signal.SIGINT)
            return time.monotonic()

        sent = in_thread(interrupt)
        assert_raises(KeyboardInterrupt, call)
        assert time.monotonic() - sent.result(WAIT_S) < AT_ONCE_S
        proxy.resume()
        wait_until(lambda: not keys(client, name) and not session._engine.core.tickets)


def is_asking() -> bool:
    """Whether a thread waits for gRPC."""
    stacks = map(walk_stack, sys._current_frames().values())
    return any(frame.f_code.co_name == "_blocking" for stack in stacks for frame, _ in stack)


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
