"""ReentrantMutex: a thread enters as often as it likes, with one key and one token; other threads stay out."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lock import Client, HoldExpired, LockLost, LockTimeout, NotHeld, ReentrantMutex, Session
from tests.support.lock import WAIT_S, keys
from tests.support.waiting import wait_until


def test_a_thread_enters_again_with_the_same_token(client: Client, session: Session) -> None:
    """Nested acquisitions share key and token, write nothing to etcd, and only the last release frees (pitfall 10)."""
    mutex = ReentrantMutex(session, "reentrant/nested")
    with mutex.acquire(timeout=WAIT_S) as outer:
        revision = client.get_prefix("reentrant/nested/").revision
        with mutex.acquire(timeout=0) as inner, mutex.acquire(timeout=0) as innermost:
            assert (inner.token, innermost.token) == (outer.token, outer.token)
            assert outer.entries == 3
            assert client.get_prefix("reentrant/nested/").revision == revision
        outer.ensure()
        assert keys(client, "reentrant/nested") == [outer.key]
    assert keys(client, "reentrant/nested") == []
    with mutex.acquire(timeout=WAIT_S) as later:
        assert later.token > outer.token


def test_try_acquire_enters_again_too(session: Session) -> None:
    """try_acquire of the holding thread counts an entry."""
    mutex = ReentrantMutex(session, "reentrant/try")
    outer, inner = mutex.try_acquire(), mutex.try_acquire()
    assert outer is not None
    assert inner is not None
    inner.release()
    outer.ensure()
    outer.release()


def test_another_thread_stays_out(client: Client, session: Session) -> None:
    """While a thread holds, others of the process get None or LockTimeout; after the last release one gets in."""
    mutex = ReentrantMutex(session, "reentrant/other")
    with ThreadPoolExecutor(1) as pool:
        outer = mutex.acquire(timeout=WAIT_S)
        mutex.acquire(timeout=WAIT_S)
        assert pool.submit(mutex.try_acquire).result(WAIT_S) is None
        with pytest.raises(LockTimeout):
            pool.submit(mutex.acquire, timeout=0.1).result(WAIT_S)
        waiting = pool.submit(mutex.acquire, timeout=WAIT_S)
        wait_until(lambda: len(keys(client, "reentrant/other")) == 2)
        outer.release()
        assert not waiting.done()
        outer.release()
        pool.submit(waiting.result(WAIT_S).release).result(WAIT_S)  # the same thread: it is the only one


def test_another_thread_cannot_release(session: Session) -> None:
    """A release from another thread is NotHeld, names both threads, and changes nothing."""
    mutex = ReentrantMutex(session, "reentrant/release")
    with mutex.acquire(timeout=WAIT_S) as hold, ThreadPoolExecutor(1, thread_name_prefix="thief") as pool:
        with pytest.raises(NotHeld, match=r"MainThread.*thief"):
            pool.submit(hold.release).result(WAIT_S)
        assert hold.entries == 1
        hold.ensure()


def test_entering_a_lost_lock_again_is_an_error(client: Client, session: Session) -> None:
    """A thread whose hold is lost gets LockLost instead of running the inner body unlocked, until it has left."""
    mutex = ReentrantMutex(session, "reentrant/lost")
    hold = mutex.acquire(timeout=WAIT_S)
    client.delete(hold.key, hold.token)
    assert hold.lost.wait(WAIT_S)
    with pytest.raises(LockLost):
        mutex.acquire(timeout=WAIT_S)
    with pytest.raises(LockLost):
        mutex.try_acquire()
    with pytest.raises(LockLost):
        hold.release()
    with mutex.acquire(timeout=WAIT_S) as again:
        again.ensure()


def test_max_hold_counts_from_the_first_entry(session: Session) -> None:
    """Entering again does not extend max_hold."""
    mutex = ReentrantMutex(session, "reentrant/max-hold", max_hold=0.3)
    hold = mutex.acquire(timeout=WAIT_S)
    mutex.acquire()
    assert hold.lost.wait(WAIT_S)
    hold.release()
    with pytest.raises(HoldExpired):
        hold.release()


def test_a_thread_that_ends_without_release_frees_the_lock(client: Client, session: Session) -> None:
    """What a thread forgot is taken away after its end, with a warning, so that it does not block for ever."""
    mutex = ReentrantMutex(session, "reentrant/forgotten")

    def forget() -> None:
        mutex.acquire(timeout=WAIT_S)

    def end_a_thread() -> None:
        thread = threading.Thread(target=forget)
        thread.start()
        thread.join()
        gc.collect()

    with pytest.warns(ResourceWarning, match="reentrant/forgotten"):
        end_a_thread()
    wait_until(lambda: keys(client, "reentrant/forgotten") == [])
