"""Mutex, ReentrantMutex and MultiLock: what is told of a wait and of a hold, and what they cost."""

from __future__ import annotations

import math
import queue
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast
from unittest.mock import Mock

import pytest

from loadtest.stack.proxy import Proxy
from loadtest.stack.servers import Etcd
from lock import Client, CohortMutex, Election, MultiLock, Mutex, ReentrantMutex, Session, connect
from lock.errors import EtcdDenied, LockLost, LockTimeout, NotHeld
from lock.model import LeaseStatus
from tests.support.lock import WAIT_S, await_keys, delete, keys, put
from tests.support.waiting import Patch, assert_raises, in_thread, wait_until


def test_the_timeout_bounds_the_wait_and_not_the_request(far_session: Session, proxy: Proxy, name: str) -> None:
    """A free lock is got with any timeout, although etcd takes longer to answer."""
    proxy.delay_s = 0.1
    for timeout in (0, 0.01, 0.05):
        Mutex(far_session, name).acquire(timeout=timeout).release()


def test_what_makes_no_sense_is_told_where_it_is_given(client: Client, session: Session) -> None:
    """TypeError or ValueError, before etcd is asked, with what to give."""
    of_cohorts = [("batch", 0), ("batch", 2.5), ("batch", "3"), ("slice", -0.1), ("slice", math.nan), ("linger", -1)]
    mutex: Any = partial(Mutex, session, "a")
    cohort: Any = partial(CohortMutex, session, "a")
    multi: Any = partial(MultiLock, session)
    new: Any = Session
    put: Any = partial(client.put, "a")
    wrong: dict[str, list[Callable[[], object]]] = {
        "lock 'a' takes a Session": [partial(Mutex, cast("Any", client), "a")],
        "takes the client that connect": [partial(new, session)],
        "separated by commas": [partial(connect, cast("Any", ["127.0.0.1:2379"]))],
        "a value is bytes, or a text": [partial(put, None)],
        "if_ takes conditions": [partial(put, "b", if_=mutex)],
        "is_owner": [partial(put, "b", if_=[7])],
        "proclaims is a text": [partial(Election(session, "a").campaign, cast("Any", b"x"))],
        "ttl is a whole number of": [partial(new, client, ttl=ttl) for ttl in (0, -1, 1.5, "5", None, True)],
        "max_hold is seconds, more than 0": [partial(mutex, max_hold=most) for most in (0, -1.0, math.nan, "3")],
        r"(batch|slice|linger) is .*(0|1) or more": [partial(cohort, **{of: value}) for of, value in of_cohorts],
        "a name at least": [partial(multi, [])],
        "below 'multi/a'": [partial(multi, ["multi/a", "multi/a/b"]), partial(multi, ["multi/a/b/c", "multi/a"])],
        "empty part": [partial(multi, ["multi/a", "multi//b"])],
        "list of names": [partial(multi, "multi/a")],
    }
    for message, calls in wrong.items():
        for call in calls:
            assert_raises((TypeError, ValueError), call, match=message)


def test_contenders_without_the_right_to_their_ttl(mutex: Mutex, monkeypatch: Patch) -> None:
    """A client that may not read all keys of a holder's lease (etcd 3.5.9 and later) sees the queue without its TTL."""
    with mutex.acquire(timeout=WAIT_S):
        answers = [EtcdDenied("may not"), LeaseStatus(7, 10)]
        monkeypatch.setattr(mutex.session.client, "time_to_live", Mock(side_effect=answers))
        assert [[each.ttl_s for each in mutex.contenders()] for _ in answers] == [[None], [7]]


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
        assert client.call(client.requests.list_lease(other.lease_id)).keys == [inner.key]


def test_a_holder_is_told_of_a_waiter(mutex: Mutex, session: Session, theirs: Mutex) -> None:
    """Once, when the first one comes, of whichever process; at once where one waits; never after the release."""
    told, hold = queue.SimpleQueue[str](), mutex.acquire(timeout=WAIT_S)
    hold.on_contended(lambda: told.put("first"))
    session.ensure()
    assert told.empty()
    waits = [in_thread(lambda: theirs.acquire(timeout=WAIT_S).release()) for _ in range(2)]
    assert told.get(timeout=WAIT_S) == "first"
    hold.on_contended(lambda: told.put("late"))
    assert told.get(timeout=WAIT_S) == "late"
    hold.release()
    hold.on_contended(lambda: told.put("over"))
    for wait in waits:
        wait.result(WAIT_S)
    assert told.empty()
    assert_raises(TypeError, hold.on_contended, None, match="on_contended takes a function")


def test_a_release_need_not_wait(
    client: Client, far_session: Session, proxy: Proxy, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It returns while etcd is silent, and the key is deleted afterwards; one that was gone before is logged."""
    hold, missing = (Mutex(far_session, f"{name}/{each}").acquire(timeout=WAIT_S) for each in ("a", "b"))
    proxy.stall()
    delete(client, missing.key)
    for each in (hold, missing):
        each.release(wait=False)
        assert_raises(NotHeld, each.release, wait=False)
    assert keys(client, name) == [hold.key]
    proxy.resume()
    await_keys(client, name, 0)
    wait_until(lambda: f"{missing.key} was gone before it was released" in caplog.text)


def test_what_is_free_costs_two_writes(counted: Client, calls: Counter[str], client: Client, name: str) -> None:
    """Acquire and release are one transaction each: no watch, no list."""
    with Session(counted, ttl=600) as session:
        lock = Mutex(session, name)
        lock.acquire(timeout=WAIT_S).release()
        calls.clear()
        for _ in range(10):
            with lock.acquire(timeout=WAIT_S) as hold:
                assert [kv.create_revision for kv in client.get_prefix(f"{name}/").keys] == [hold.token]
        assert calls["Txn"] == 20
        assert set(calls) <= {"Txn", "LeaseTimeToLive"}
    assert keys(client, name) == []


# ReentrantMutex: a thread enters as often as it likes, with one key and one token; other threads stay out


def test_a_thread_enters_again_with_the_same_token(client: Client, session: Session, name: str) -> None:
    """Nested entries share key and token, write nothing to etcd, and only the last release frees (pitfall 10).

    Another thread gets None from a try and NotHeld from a release.
    """
    nested = ReentrantMutex(session, name)
    with ThreadPoolExecutor(1, thread_name_prefix="thief") as pool, nested.acquire(timeout=WAIT_S) as outer:
        revision = client.get_prefix(f"{name}/").revision
        with nested.acquire(timeout=0) as inner:
            tried = nested.try_acquire()
            assert tried is not None
            assert inner.token == tried.token == outer.token
            assert outer.entries == 3
            assert client.get_prefix(f"{name}/").revision == revision
            tried.release()
            assert_raises(NotHeld, pool.submit(outer.release).result, WAIT_S, match=r"MainThread.*thief")
            assert outer.entries == 2
        assert pool.submit(nested.try_acquire).result(WAIT_S) is None
        outer.ensure()
        assert keys(client, name) == [outer.key]
    assert keys(client, name) == []


def test_entering_a_lost_lock_again_is_an_error(client: Client, session: Session, name: str) -> None:
    """A thread whose hold is lost gets LockLost instead of running the inner body unlocked, until it has left."""
    nested = ReentrantMutex(session, name)
    hold = nested.acquire(timeout=WAIT_S)
    delete(client, hold.key)
    assert hold.lost.wait(WAIT_S)
    for call in (nested.acquire, nested.try_acquire, hold.release):
        assert_raises(LockLost, call)
    with nested.acquire(timeout=WAIT_S) as again:
        again.ensure()


# MultiLock: several names, all or nothing, without deadlock whatever the order given


def test_all_are_held_or_none(client: Client, session: Session, stranger: Session, name: str) -> None:
    """Inside `with` no other session gets any of the names; `b` and `bb` are two, and one given twice is one.

    When one name is busy, at a timeout or a try, the others are free again, and the error names the busy one.
    """
    names = [f"{name}/{each}" for each in ("c", "a", "b", "bb", "a")]
    several = MultiLock(session, names)
    with Mutex(stranger, f"{name}/b").acquire(timeout=WAIT_S) as busy:
        assert_raises(LockTimeout, several.acquire, timeout=1.0, match=rf"{name}/b.*stranger")
        wait_until(lambda: keys(client, name) == [busy.key])
        assert several.try_acquire() is None
        wait_until(lambda: keys(client, name) == [busy.key])
    hold = several.try_acquire()
    assert hold is not None
    assert list(hold.tokens) == sorted(set(names))
    assert {name: queue[0].token for name, queue in several.contenders().items()} == hold.tokens
    assert all(Mutex(stranger, name).try_acquire() is None for name in names)
    proofs = {bytes(proof.key).decode(): proof.revision for proof in hold.is_owner()}
    assert proofs == {keys(client, name)[0]: hold.tokens[name] for name in names}
    assert len(keys(client, name)) == 4
    hold.release()
    assert keys(client, name) == []
    assert_raises(NotHeld, hold.release, match=f"{name}/a")


def test_more_names_than_a_transaction_takes(client: Client, session: Session, name: str) -> None:
    """They are released by two."""
    with MultiLock(session, [f"{name}/{number}" for number in range(101)]).acquire(timeout=3 * WAIT_S) as hold:
        assert len(set(hold.tokens.values())) == 101
    assert keys(client, name) == []
