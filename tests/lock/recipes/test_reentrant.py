"""ReentrantMutex: a thread enters as often as it likes, with one key and one token; other threads stay out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from lock import Client, LockLost, LockTimeout, NotHeld, ReentrantMutex, Session
from tests.support.lock import WAIT_S, await_keys, delete, keys
from tests.support.waiting import assert_raises


@pytest.fixture
def mutex(session: Session, name: str) -> ReentrantMutex:
    return ReentrantMutex(session, name)


def test_a_thread_enters_again_with_the_same_token(client: Client, mutex: ReentrantMutex) -> None:
    """Nested entries share key and token, write nothing to etcd, and only the last release frees (pitfall 10)."""
    with mutex.acquire(timeout=WAIT_S) as outer:
        revision = client.get_prefix(f"{mutex.name}/").revision
        with mutex.acquire(timeout=0) as inner:
            tried = mutex.try_acquire()
            assert tried is not None
            assert (inner.token, tried.token, outer.entries) == (outer.token, outer.token, 3)
            assert client.get_prefix(f"{mutex.name}/").revision == revision
            tried.release()
        outer.ensure()
        assert keys(client, mutex.name) == [outer.key]
    assert keys(client, mutex.name) == []
    with mutex.acquire(timeout=WAIT_S) as later:
        assert later.token > outer.token


def test_another_thread_stays_out(client: Client, mutex: ReentrantMutex) -> None:
    """Other threads get None or LockTimeout, and cannot release; after the last release one gets in."""
    with ThreadPoolExecutor(1, thread_name_prefix="thief") as pool:
        outer = mutex.acquire(timeout=WAIT_S)
        mutex.acquire(timeout=WAIT_S)
        assert pool.submit(mutex.try_acquire).result(WAIT_S) is None
        assert_raises(LockTimeout, pool.submit(mutex.acquire, timeout=1.0).result, WAIT_S)
        assert_raises(NotHeld, pool.submit(outer.release).result, WAIT_S, match=r"MainThread.*thief")
        assert outer.entries == 2
        waiting = pool.submit(mutex.acquire, timeout=WAIT_S)
        await_keys(client, mutex.name, 2)
        outer.release()
        assert not waiting.done()
        outer.release()
        pool.submit(waiting.result(WAIT_S).release).result(WAIT_S)  # the same thread: it is the only one


def test_entering_a_lost_lock_again_is_an_error(client: Client, mutex: ReentrantMutex) -> None:
    """A thread whose hold is lost gets LockLost instead of running the inner body unlocked, until it has left."""
    hold = mutex.acquire(timeout=WAIT_S)
    delete(client, hold.key)
    assert hold.lost.wait(WAIT_S)
    for call in (mutex.acquire, mutex.try_acquire, hold.release):
        assert_raises(LockLost, call)
    with mutex.acquire(timeout=WAIT_S) as again:
        again.ensure()
