"""The end of a session, and what comes after: listeners, orphans, leases taken over."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from loadtest.stack.servers import Etcd
from lock import Client, LeaseNotFound, LockCancelled, LockTimeout, Mutex, Session, SessionLost, connect
from lock.queue.ticket import Ticket
from lock.queue.wait_queue import WaitQueue
from tests.support.lock import WAIT_S, keys, lock_threads
from tests.support.waiting import wait_until


def test_listeners_are_told_when_the_lease_is_revoked(client: Client) -> None:
    """Session.on_lost calls each listener once, after the holds know, even if one of them fails."""
    with Session(client, ttl=5) as session:
        hold = Mutex(session, "end/revoked").acquire(timeout=WAIT_S)
        seen: list[bool] = []
        told = threading.Event()
        session.on_lost(lambda: 1 / 0)
        session.on_lost(lambda: seen.append(hold.lost.is_set()))
        session.on_lost(told.set)
        client.revoke(session.lease_id)
        assert told.wait(WAIT_S)
        assert seen == [True]
        with pytest.raises(SessionLost):
            hold.ensure()
        with pytest.raises(SessionLost):
            hold.release()


def test_a_listener_that_comes_too_late_is_told_at_once(client: Client) -> None:
    """on_lost of a session that was closed calls the listener in the same breath."""
    session = Session(client, ttl=5)
    session.close()
    told: list[str] = []
    session.on_lost(lambda: told.append("told"))
    assert told == ["told"]


def test_an_orphaned_lease_keeps_what_it_holds(client: Client) -> None:
    """orphan ends the session here, with no thread left, but leaves lease and keys in etcd."""
    session = Session(client, ttl=5, name="orphan")
    hold = Mutex(session, "end/orphan").acquire(timeout=WAIT_S)
    session.orphan()
    assert session.lost.is_set()
    with pytest.raises(SessionLost, match="orphaned"):
        hold.ensure()
    with pytest.raises(SessionLost):
        Mutex(session, "end/orphan").acquire(timeout=WAIT_S)
    assert keys(client, "end/orphan") == [hold.key]
    assert client.time_to_live(session.lease_id).ttl > 0
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lock-queue end/orphan")]
    client.revoke(session.lease_id)
    with pytest.raises(SessionLost):
        hold.release()


def test_a_lease_that_was_taken_over_lives_on(etcd: Etcd, client: Client) -> None:
    """A new session on an orphan's lease renews it with the TTL that was granted, and frees its keys when closed."""
    before = Session(client, ttl=2)
    held = Mutex(before, "end/taken-over").acquire(timeout=WAIT_S)
    before.orphan()
    renewed: list[int] = []

    def observe(call: str, request: Any, response: Any, seconds: float) -> None:
        if call == "LeaseKeepAlive":
            renewed.append(request.ID)

    with connect(etcd.endpoint, observer=observe) as other, Session(other, lease_id=before.lease_id) as after:
        assert (after.lease_id, after.ttl) == (before.lease_id, before.ttl)
        wait_until(lambda: renewed == [after.lease_id] * 3)  # once to take it over, then by itself
        assert keys(client, "end/taken-over") == [held.key]
        with Mutex(after, "end/other").acquire(timeout=WAIT_S) as hold:
            hold.ensure()
    assert keys(client, "end/taken-over") == []
    with pytest.raises(SessionLost):
        held.release()


def test_sessions_on_one_lease_never_share_a_key(client: Client) -> None:
    """Who takes a lease over waits for what the session before it holds, instead of taking its key for its own."""
    before = Session(client, ttl=5)
    held = Mutex(before, "end/keys").acquire(timeout=WAIT_S)
    before.orphan()
    with Session(client, lease_id=before.lease_id) as after:
        with pytest.raises(LockTimeout):
            Mutex(after, "end/keys").acquire(timeout=0.2)
        wait_until(lambda: keys(client, "end/keys") == [held.key])
    with pytest.raises(SessionLost):
        held.release()


def test_a_lease_that_is_gone_cannot_be_taken_over(client: Client) -> None:
    """Taking over an unknown lease is LeaseNotFound, and leaves no thread behind."""
    with pytest.raises(LeaseNotFound, match="take over"):
        Session(client, lease_id=1234567)
    assert not [thread for thread in threading.enumerate() if thread.name == "lock-lease"]


def test_a_session_that_is_lost_while_a_thread_begins_to_queue(
    client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its queue came too late to be told with the others: the thread gets SessionLost, and nothing follows it."""
    session = Session(client, ttl=10)
    begin = session.queues.add

    def lost_before(prefix: str, ticket: Ticket) -> WaitQueue:
        session.lease.gone()
        return begin(prefix, ticket)

    monkeypatch.setattr(session.queues, "add", lost_before)
    with pytest.raises(SessionLost):
        Mutex(session, name).acquire(timeout=WAIT_S)
    wait_until(lambda: f"lock-queue {name}/" not in lock_threads())
    session.close()


def test_a_wait_that_begins_while_waits_are_cancelled_is_cancelled(
    client: Client, stranger: Session, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cancel_waiters has gone through the queues, and then there is one more: its wait is cancelled too."""
    with Session(client, ttl=10) as session, Mutex(stranger, name).acquire(timeout=WAIT_S):
        begin = session.queues.add

        def cancelled_before(prefix: str, ticket: Ticket) -> WaitQueue:
            session.cancel_waiters()
            return begin(prefix, ticket)

        monkeypatch.setattr(session.queues, "add", cancelled_before)
        with pytest.raises(LockCancelled):
            Mutex(session, name).acquire(timeout=WAIT_S)
