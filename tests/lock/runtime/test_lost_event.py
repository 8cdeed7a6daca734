"""All know of a loss at once, whatever the callbacks of the others do."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from loadtest.stack.servers import Etcd
from lock import Client, CohortMutex, Election, MultiLock, Mutex, Session, SessionLost, connect
from tests.support.lock import AT_ONCE_S, WAIT_S, in_thread, in_turn, queue_up
from tests.support.waiting import wait_until


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a callback that takes its time waits for."""
    gate = threading.Event()
    yield gate
    gate.set()


def test_a_slow_callback_delays_nobodys_loss(client: Client, name: str, gate: threading.Event) -> None:
    """The lease is gone: all holds and waits of all names know before the first callback has returned."""
    with Session(client, ttl=60) as session:
        holds = [Mutex(session, f"{name}/{number}").acquire(timeout=WAIT_S) for number in range(3)]
        several = MultiLock(session, [f"{name}/a", f"{name}/b"]).acquire(timeout=WAIT_S)
        waiting = queue_up(client, Mutex(session, f"{name}/2"))
        for on_lost in (*(hold.on_lost for hold in holds), several.on_lost):
            on_lost(lambda: gate.wait(WAIT_S))
        in_thread(session.lease.gone).result(AT_ONCE_S)
        assert all(hold.lost.is_set() for hold in holds)
        assert several.lost.is_set()
        with pytest.raises(SessionLost):
            waiting.result(AT_ONCE_S)
        gate.set()


def test_a_slow_callback_delays_no_hand_over(
    client: Client, session: Session, stranger: Session, name: str, gate: threading.Event
) -> None:
    """It does not run in the thread that learns whose turn it is."""
    mutex = Mutex(session, name)
    hold = mutex.acquire(timeout=WAIT_S)
    told = threading.Event()
    hold.on_lost(in_turn(told.set, partial(gate.wait, WAIT_S)))
    theirs, ours = queue_up(client, Mutex(stranger, name)), queue_up(client, mutex)
    client.delete(hold.key, None)
    assert told.wait(AT_ONCE_S)
    theirs.result(AT_ONCE_S).release()
    ours.result(AT_ONCE_S).release()


def test_a_watch_that_takes_its_time_to_close_delays_nobodys_loss(
    client: Client, name: str, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be logging in: the holds of all names know before it is closed."""
    with Session(client, ttl=60) as session:
        holds = [Mutex(session, f"{name}/{number}").acquire(timeout=WAIT_S) for number in range(2)]
        for hold in holds:
            wait_until(partial(lambda queue: queue._watch is not None, hold._queue))
            monkeypatch.setattr(hold._queue._watch, "close", lambda: gate.wait(WAIT_S))
        ending = in_thread(session.lease.gone)
        assert all(hold.lost.wait(AT_ONCE_S) for hold in holds)
        assert not ending.done()
        monkeypatch.undo()
        gate.set()
        ending.result(WAIT_S)


def test_a_callback_may_end_with_anything(client: Client, name: str) -> None:
    """SystemExit ends that callback and no other; what cannot be called is refused when it is given."""
    with Session(client, ttl=60) as session:
        hold, told = Mutex(session, name).acquire(timeout=WAIT_S), threading.Event()
        for on_lost in (hold.on_lost, session.on_lost):
            with pytest.raises(TypeError, match="function"):
                on_lost(None)  # type: ignore[arg-type]
        hold.on_lost(sys.exit)
        session.on_lost(told.set)
        session.lease.gone()
        assert told.wait(WAIT_S)


def test_what_is_closed_leaves_no_thread_in_the_list(etcd: Etcd, name: str) -> None:
    """Not even as a dummy: Python lists threads that it did not start as soon as they ask for themselves."""
    before = set(threading.enumerate())
    with (
        connect(etcd.endpoint) as client,
        Session(client) as session,
        CohortMutex(session, name).acquire(timeout=WAIT_S),
        Election(session, f"{name}/e").observe(),
    ):
        pass
    wait_until(lambda: set(threading.enumerate()) <= before)


def test_a_session_ends_after_its_callbacks(client: Client, name: str) -> None:
    """When close returns, those of its holds and its own were called, in this order."""
    told: list[str] = []
    with Session(client, ttl=60) as session:
        session.on_lost(lambda: told.append("session"))
        hold = Mutex(session, f"{name}/other").acquire(timeout=WAIT_S)
        hold.on_lost(lambda: told.append("hold"))
    assert told == ["hold", "session"]
