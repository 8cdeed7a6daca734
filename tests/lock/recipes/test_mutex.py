"""The mutex: what a wait, a try and `contenders` tell, and how a wait is cancelled or interrupted."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest

from loadtest.stack.proxy import Proxy
from loadtest.stack.servers import Etcd
from lock import (
    CancelToken,
    Client,
    CohortMutex,
    EtcdDenied,
    EtcdUnavailable,
    LockCancelled,
    LockTimeout,
    MultiLock,
    Mutex,
    Session,
    connect,
)
from lock.model import LeaseStatus
from lock.queue.wait_queue import WaitQueue
from lock.runtime.clock import now
from lock.session.janitor import Janitor
from tests.support.lock import WAIT_S, await_keys, keys, put, queue_up
from tests.support.waiting import Patch, assert_goes_on, assert_raises, in_thread, wait_until


def test_a_timeout_of_nothing_is_a_try(client: Client, mutex: Mutex) -> None:
    """A free lock is acquired, unless the machine is too slow; else it times out and leaves no key."""

    def acquired() -> bool:
        with contextlib.suppress(LockTimeout, EtcdUnavailable):
            mutex.acquire(timeout=0).release()
            return True
        return False

    wait_until(acquired)
    with in_thread(mutex.acquire).result(WAIT_S) as hold:
        assert not acquired()
        wait_until(lambda: keys(client, mutex.name) == [hold.key])


def test_a_mutex_by_itself_is_no_hold(client: Client, session: Session, name: str) -> None:
    """`with mutex:` does not lock, and the error says what to write; the body does not run."""
    for mutex in (Mutex(session, name), CohortMutex(session, name), MultiLock(session, [name])):
        with pytest.raises(TypeError, match=r"with mutex\.acquire\(timeout=\.\.\.\)"), mutex:
            pytest.fail("runs unlocked")
    assert keys(client, name) == []


def test_contenders_within_one_deadline(
    client: Client, far: Client, far_session: Session, proxy: Proxy, name: str
) -> None:
    """Over a slow network the TTLs of the first ones are told, and the call does not wait for those of a long queue."""
    leases = [client.grant(60).id for _ in range(30)]
    for number, lease in enumerate(leases):
        put(client, f"{name}/{number}", lease_id=lease)
    proxy.delay_s = far.timeout / 20
    contenders = Mutex(far_session, name).contenders()
    assert [contender.lease_id for contender in contenders] == leases
    ttls = [contender.ttl_s is not None for contender in contenders]
    assert ttls == sorted(ttls, reverse=True)
    assert set(ttls) == {True, False}
    for lease in leases:
        client.revoke(lease)


def test_contenders_tell_session_time_and_ttl(
    client: Client, session: Session, mutex: Mutex, theirs: Mutex, monkeypatch: Patch
) -> None:
    """A client that may not read all keys of a holder's lease (etcd 3.5.9 and later) sees the queue without its TTL."""
    time_to_live, may_not_read = client.time_to_live, set[int]()

    def perhaps_denied(lease_id: int, *, timeout: float) -> LeaseStatus:
        if lease_id in may_not_read:
            raise EtcdDenied("etcdserver: permission denied")
        return time_to_live(lease_id, timeout=timeout)

    monkeypatch.setattr(client, "time_to_live", perhaps_denied)
    with mutex.acquire(timeout=WAIT_S) as hold:
        waiting = queue_up(client, theirs)
        first, second = mutex.contenders()
        assert (first.token, first.lease_id) == (hold.token, session.lease_id)
        assert (first.session, second.session) == ("ours", "stranger")
        assert 0 < (first.ttl_s or 0) <= session.ttl
        assert (first.queued_s or -1) >= (second.queued_s or -1) >= 0
        may_not_read.add(session.lease_id)
        assert [each.ttl_s is None for each in mutex.contenders()] == [True, False]
    waiting.result(WAIT_S).release()


def test_waiting_is_patient_while_etcd_restarts(far_session: Session, client: Client, proxy: Proxy, name: str) -> None:
    """With time left, an acquire that finds etcd unavailable retries and gets its place once etcd is back."""
    proxy.refuse()
    acquiring = in_thread(Mutex(far_session, name).acquire, timeout=WAIT_S)
    assert_goes_on(acquiring, 0.3)
    proxy.start()
    acquiring.result(WAIT_S).release()
    assert keys(client, name) == []


def test_the_same_name_in_another_namespace_is_another_lock(etcd: Etcd, mutex: Mutex, name: str) -> None:
    """Namespaces do not meet."""
    with (
        connect(etcd.endpoint, namespace="elsewhere/") as client,
        Session(client) as other,
        mutex.acquire(timeout=WAIT_S),
        Mutex(other, name).acquire(timeout=WAIT_S) as inner,
    ):
        assert inner.key.startswith(name)
        assert keys(mutex.session.client, f"elsewhere/{name}") == [f"elsewhere/{inner.key}"]
        assert Mutex(other, name).try_acquire() is None
        assert [contender.key for contender in Mutex(other, name).contenders()] == [inner.key]
        put(mutex.session.client, f"{name}/outside", lease_id=other.lease_id)
        assert client.lease_keys(other.lease_id) == [inner.key]


# Cancellation and interrupts


def test_a_token_that_was_cancelled_before_ends_a_wait_at_once(client: Client, mutex: Mutex) -> None:
    """It leaves no key; a hold that was acquired with it goes on."""
    token = CancelToken()
    with mutex.acquire(timeout=WAIT_S, cancel=token) as hold:
        token.cancel()
        assert_raises(LockCancelled, mutex.acquire, timeout=WAIT_S, cancel=token)
        hold.ensure()
        assert keys(client, mutex.name) == [hold.key]


def test_a_cancelled_attempt_is_not_a_hold(client: Client, session: Session, mutex: Mutex, monkeypatch: Patch) -> None:
    """A session that drains while the answer to a try is out gets no hold from it, and no key is left."""
    ask = session.client.ask

    async def drain_meanwhile(*args: Any, **options: Any) -> Any:
        session.cancel_waiters()
        return await ask(*args, **options)

    monkeypatch.setattr(session.client, "ask", drain_meanwhile)
    assert_raises(LockCancelled, mutex.try_acquire)
    await_keys(client, mutex.name, 0)


@pytest.mark.parametrize(("place", "step"), [(Janitor, "delete"), (WaitQueue, "remove")])
def test_an_interrupt_while_withdrawing_leaves_no_key(
    client: Client, mutex: Mutex, theirs: Mutex, monkeypatch: Patch, place: type, step: str
) -> None:
    """A wait that is over deletes its key although Ctrl-C comes just then."""
    mutex.session.janitor._strays_due = now() + 600.0  # which would find it, too
    step_of, calls = getattr(place, step), itertools.count(1)

    def interrupted_once(*args: Any, **options: Any) -> Any:
        if next(calls) == 1:
            raise KeyboardInterrupt
        return step_of(*args, **options)

    with theirs.acquire(timeout=WAIT_S) as hold:
        monkeypatch.setattr(place, step, interrupted_once)
        assert_raises(KeyboardInterrupt, mutex.acquire, timeout=0.3)
        wait_until(lambda: keys(client, mutex.name) == [hold.key])
