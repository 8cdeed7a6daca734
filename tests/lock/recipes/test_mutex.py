"""The mutex: one holder at a time, first come first served, and `with` never runs unlocked."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest

from loadtest.stack.proxy import Proxy
from loadtest.stack.servers import Etcd
from lock import (
    Client,
    CohortMutex,
    EtcdDenied,
    EtcdUnavailable,
    LockTimeout,
    MultiLock,
    Mutex,
    ReentrantMutex,
    Session,
    connect,
)
from lock.model import LeaseStatus
from tests.support.lock import AT_ONCE_S, WAIT_S, assert_goes_on, in_thread, keys, put, queue_up
from tests.support.waiting import wait_until


def test_it_is_not_reentrant(session: Session, name: str) -> None:
    """A thread that holds waits for itself, and is told so by the timeout."""
    mutex = Mutex(session, name)
    with mutex.acquire(timeout=WAIT_S) as hold, pytest.raises(LockTimeout, match=hold.key):
        mutex.acquire(timeout=0.2)


def test_a_timeout_is_kept_and_names_the_holder(client: Client, session: Session, stranger: Session, name: str) -> None:
    """It ends between 0.5 and 0.6 s, says who holds the lock by which key and with what TTL left, and leaves no key."""
    waits: list[float] = []
    with Mutex(stranger, name).acquire(timeout=WAIT_S) as hold:
        while len(waits) < 10 and not (waits and waits[-1] < 0.6):  # a busy machine may be late now and then
            started = time.monotonic()
            with pytest.raises(LockTimeout) as caught:
                Mutex(session, name).acquire(timeout=0.5)
            waits.append(time.monotonic() - started)
            wait_until(lambda: keys(client, name) == [hold.key])
    assert 0.5 <= min(waits) < 0.6
    message = str(caught.value)
    for said in (name, hold.key, "stranger", f"lease {stranger.lease_id:x}", "TTL left", "0.5 s"):
        assert said in message
    assert caught.value.holder is not None
    assert caught.value.holder.token == hold.token
    assert caught.value.holder.session == "stranger"
    assert isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize("timeout", [0, 0.0])
def test_a_timeout_of_nothing_ends_at_once(client: Client, session: Session, name: str, timeout: float) -> None:
    """Zero seconds: the caller is told in time, and no key is left, whether the lock is free or not."""
    with contextlib.suppress(LockTimeout, EtcdUnavailable):
        Mutex(session, name).acquire(timeout=timeout).release()
    with in_thread(Mutex(session, name).acquire).result(WAIT_S):
        started = time.monotonic()
        with pytest.raises((LockTimeout, EtcdUnavailable)):
            Mutex(session, name).acquire(timeout=timeout)
        assert time.monotonic() - started < 0.3
        wait_until(lambda: len(keys(client, name)) == 1)


@pytest.mark.parametrize("fresh", [True, False])
def test_a_timeout_of_nothing_is_a_try(session: Session, name: str, fresh: bool) -> None:
    """A free lock is acquired, whether or not its queue is followed yet; a busy machine may be too slow for some."""
    acquired = 0
    for number in range(20):
        with contextlib.suppress(LockTimeout, EtcdUnavailable):
            Mutex(session, f"{name}/{number if fresh else 0}").acquire(timeout=0).release()
            acquired += 1
    assert acquired > 10


@pytest.mark.parametrize("timeout", [-1, -0.001, float("nan"), "5", True])
def test_a_timeout_that_means_nothing_is_refused(client: Client, session: Session, name: str, timeout: Any) -> None:
    """The error says what to give, and nothing is written."""
    with pytest.raises((TypeError, ValueError), match="timeout is seconds, 0 or more, or None"):
        Mutex(session, name).acquire(timeout=timeout)
    assert keys(client, name) == []


def test_a_mutex_by_itself_is_no_hold(client: Client, session: Session, name: str) -> None:
    """`with mutex:` does not lock, and the error says what to write; the body does not run."""
    for mutex in (Mutex(session, name), CohortMutex(session, name), MultiLock(session, [name])):
        with pytest.raises(TypeError, match=r"with mutex\.acquire\(timeout=\.\.\.\)"), mutex:
            pytest.fail("runs unlocked")
    assert keys(client, name) == []


@pytest.mark.parametrize("make", [Mutex, ReentrantMutex, CohortMutex])
def test_whether_it_is_locked(session: Session, stranger: Session, name: str, make: type[Mutex | CohortMutex]) -> None:
    """`locked()` asks etcd, whichever process holds; `released` of a hold tells of that hold."""
    mutex = make(session, name)
    assert not mutex.locked()
    theirs = make(stranger, name).acquire(timeout=WAIT_S)
    assert mutex.locked()
    assert not theirs.released
    theirs.release()
    assert theirs.released
    assert not mutex.locked()


def test_a_try_does_not_overtake_those_who_wait(client: Client, session: Session, stranger: Session, name: str) -> None:
    """In the very moment of a hand-over, the next one in the queue gets the lock, not a thread that just tries."""
    hold = Mutex(stranger, name).acquire(timeout=WAIT_S)
    waiting = queue_up(client, Mutex(stranger, name))
    hold.release()
    assert Mutex(session, name).try_acquire() is None
    waiting.result(WAIT_S).release()
    mine = Mutex(session, name).try_acquire()
    assert mine is not None
    mine.release()


def test_contenders_are_told_within_one_deadline(
    client: Client, far: Client, far_session: Session, proxy: Proxy, name: str
) -> None:
    """Over a slow network the TTLs of the first ones are told, and the call does not wait for those of a long queue."""
    leases = [client.grant(60).id for _ in range(30)]
    for number, lease in enumerate(leases):
        put(client, f"{name}/{number}", lease_id=lease)
    proxy.delay_s = 0.05
    started = time.monotonic()
    contenders = Mutex(far_session, name).contenders()
    assert time.monotonic() - started < far.timeout + AT_ONCE_S
    assert [contender.lease_id for contender in contenders] == leases
    ttls = [contender.ttl_s is not None for contender in contenders]
    assert ttls == sorted(ttls, reverse=True)
    assert set(ttls) == {True, False}
    for lease in leases:
        client.revoke(lease)


def test_contenders_with_leases_that_may_not_be_asked_for_are_listed(
    client: Client, session: Session, stranger: Session, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that may not read all keys of a holder's lease (etcd 3.5.9 and later) sees the queue without it."""
    time_to_live = client.time_to_live

    def denied(lease_id: int, *, timeout: float) -> LeaseStatus:
        if lease_id == session.lease_id:
            raise EtcdDenied("etcdserver: permission denied")
        return time_to_live(lease_id, timeout=timeout)

    monkeypatch.setattr(client, "time_to_live", denied)
    with Mutex(session, name).acquire(timeout=WAIT_S):
        waiting = queue_up(client, Mutex(stranger, name))
        first, second = Mutex(session, name).contenders()
        assert first.ttl_s is None
        assert second.ttl_s is not None
    waiting.result(WAIT_S).release()


def test_contenders_are_listed_holder_first(client: Client, session: Session, stranger: Session, name: str) -> None:
    """Holder and waiters, in order, with readable owners, the TTLs of their leases, and since when."""
    with Mutex(session, name).acquire(timeout=WAIT_S) as hold:
        waiting = queue_up(client, Mutex(stranger, name))
        first, second = Mutex(session, name).contenders()
        assert (first.key, first.token, first.lease_id, first.session) == (
            hold.key,
            hold.token,
            session.lease_id,
            "ours",
        )
        assert second.session == "stranger"
        assert second.token > first.token
        assert first.ttl_s is not None
        assert 0 < first.ttl_s <= session.ttl
        assert first.queued_s is not None
        assert second.queued_s is not None
        assert first.queued_s >= second.queued_s >= 0
    waiting.result(WAIT_S).release()
    assert Mutex(session, name).contenders() == []


def test_a_stalled_etcd_ends_a_try_in_time(far_session: Session, proxy: Proxy, name: str) -> None:
    """EtcdUnavailable at the client's deadline; None would claim that the lock is held."""
    proxy.stall()
    started = time.monotonic()
    with pytest.raises(EtcdUnavailable):
        Mutex(far_session, name).try_acquire()
    assert time.monotonic() - started < far_session.client.timeout + AT_ONCE_S / 2
    proxy.resume()


def test_waiting_is_patient_while_etcd_restarts(far_session: Session, client: Client, proxy: Proxy, name: str) -> None:
    """With time left, an acquire that finds etcd unavailable retries and gets its place once etcd is back."""
    proxy.refuse()
    acquiring = in_thread(Mutex(far_session, name).acquire, timeout=WAIT_S)
    assert_goes_on(acquiring, 0.3)
    proxy.start()
    acquiring.result(WAIT_S).release()
    assert keys(client, name) == []


def test_the_same_name_in_another_namespace_is_another_lock(etcd: Etcd, session: Session, name: str) -> None:
    """Namespaces do not meet."""
    with (
        connect(etcd.endpoint, namespace="elsewhere/") as client,
        Session(client) as other,
        Mutex(session, name).acquire(timeout=WAIT_S),
        Mutex(other, name).acquire(timeout=WAIT_S) as inner,
    ):
        assert inner.key.startswith(name)
        assert [contender.key for contender in Mutex(other, name).contenders()] == [inner.key]
