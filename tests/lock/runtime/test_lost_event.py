"""All know of a loss at once, whatever the callbacks of the others do."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from loadtest.stack.servers import Etcd
from lock import Client, CohortMutex, Election, MultiLock, Mutex, Session, SessionLost, connect
from tests.support.lock import WAIT_S, queue_up
from tests.support.waiting import Patch, assert_raises, in_thread, in_turn, wait_until


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a callback that takes its time waits for."""
    gate = threading.Event()
    yield gate
    gate.set()


def test_a_slow_callback_delays_no_other_loss(client: Client, name: str, gate: threading.Event) -> None:
    """The lease is gone: all holds and waits of all names know before the first callback has returned."""
    with Session(client, ttl=60) as session:
        holds = [Mutex(session, f"{name}/{number}").acquire(timeout=WAIT_S) for number in range(3)]
        several = MultiLock(session, [f"{name}/a", f"{name}/b"]).acquire(timeout=WAIT_S)
        waiting = queue_up(client, Mutex(session, f"{name}/2"))
        for on_lost in (*(hold.on_lost for hold in holds), several.on_lost):
            on_lost(lambda: gate.wait(2 * WAIT_S))
        in_thread(session.lease.gone).result(WAIT_S)
        assert all(lost.is_set() for lost in (*(hold.lost for hold in holds), several.lost))
        assert_raises(SessionLost, waiting.result, WAIT_S)
        gate.set()


def test_a_slow_watch_delays_no_loss(client: Client, name: str, gate: threading.Event, monkeypatch: Patch) -> None:
    """It may be logging in: the holds of all names know before it is closed."""
    with Session(client, ttl=60) as session:
        holds = [Mutex(session, f"{name}/{number}").acquire(timeout=WAIT_S) for number in range(2)]
        for hold in holds:
            wait_until(partial(lambda queue: queue._watch is not None, hold._queue))
            watch = hold._queue._watch
            assert watch is not None
            monkeypatch.setattr(watch, "close", in_turn(partial(gate.wait, 2 * WAIT_S), watch.close))
        ending = in_thread(session.lease.gone)
        assert all(hold.lost.wait(WAIT_S) for hold in holds)
        assert not ending.done()
        gate.set()
        ending.result(WAIT_S)


def test_callbacks_are_called_in_order_whatever_they_raise(client: Client, name: str) -> None:
    """Of holds first, then of the session, a late one at once; SystemExit ends one of them; no other type is taken."""
    told: list[str] = []
    with Session(client, ttl=60) as session:
        hold = Mutex(session, name).acquire(timeout=WAIT_S)
        for on_lost in (hold.on_lost, session.on_lost):
            assert_raises(TypeError, on_lost, None, match="function")
        session.on_lost(sys.exit)
        session.on_lost(lambda: 1 / 0)
        session.on_lost(lambda: told.append(f"session, with its hold lost: {hold.lost.is_set()}"))
        session.on_lost(session.close)
        hold.on_lost(sys.exit)
        hold.on_lost(lambda: told.append("hold"))
        client.revoke(session.lease_id)
        wait_until(lambda: len(told) == 2)
    assert told == ["hold", "session, with its hold lost: True"]
    session.on_lost(lambda: told.append("late"))
    assert told[2:] == ["late"]


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
