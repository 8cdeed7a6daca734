"""A hold: its token, its end, and what can be asked of it in between."""

from __future__ import annotations

import queue
from collections import Counter
from typing import Any

import pytest

from loadtest.stack.proxy import Proxy
from lock import Client, Hold, LockLost, MultiHold, MultiLock, Mutex, NotHeld, Session
from tests.support.lock import WAIT_S, await_keys, delete, keys
from tests.support.waiting import assert_raises, in_thread, wait_until


@pytest.fixture
def hold(session: Session, name: str) -> Hold:
    return Mutex(session, name).acquire(timeout=WAIT_S)


def test_a_holder_is_told_of_a_waiter(hold: Hold, session: Session, theirs: Mutex) -> None:
    """Once, when the first one comes, of whichever process; at once where one waits; never after the release."""
    told: queue.SimpleQueue[str] = queue.SimpleQueue()
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


# is_owner: the proof of ownership in an etcd transaction of the application


def test_the_client_writes_for_the_owner_alone(client: Client, hold: Hold, name: str) -> None:
    """`put` and `delete` under `if_` say whether the condition held."""
    assert client.put(f"{name}-owned", "first", if_=hold.is_owner())
    assert client.put(f"{name}-owned", b"second", if_=[hold.is_owner()])
    condition = hold.is_owner()
    hold.release()
    assert not client.put(f"{name}-owned", "late", if_=condition)
    assert not client.delete(f"{name}-owned", if_=condition)
    found = client.get(f"{name}-owned")
    assert found is not None
    assert found.value == b"second"
    assert client.delete(f"{name}-owned")
    assert client.get(f"{name}-owned") is None


# From a hold to the next one of the same process: at once, while what was left behind is deleted in groups


def test_a_release_need_not_wait(
    client: Client, far_session: Session, proxy: Proxy, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It returns while etcd is silent, and the key is deleted afterwards; a loss that is known is raised even so."""
    hold, lost = (Mutex(far_session, f"{name}/{each}").acquire(timeout=WAIT_S) for each in ("a", "b"))
    delete(client, lost.key)
    assert lost.lost.wait(WAIT_S)
    assert_raises(LockLost, lost.release, wait=False)
    missing = Mutex(far_session, f"{name}/c").acquire(timeout=WAIT_S)
    proxy.stall()
    hold.release(wait=False)
    assert_raises(NotHeld, hold.release, wait=False)
    delete(client, missing.key)
    missing.release(wait=False)
    assert keys(client, name) == [hold.key]
    proxy.resume()
    await_keys(client, name, 0)
    wait_until(lambda: f"{missing.key} was gone before it was released" in caplog.text)


@pytest.mark.parametrize("kind", [Mutex, MultiLock])
def test_what_is_free_costs_two_writes(
    counted: Client, calls: Counter[str], client: Client, name: str, kind: type[Mutex | MultiLock]
) -> None:
    """Acquire and release are one transaction each, for ten names, too: no watch, no list; their token is the same."""
    names: Any = name if kind is Mutex else [f"{name}/{number}" for number in range(10)]
    with Session(counted, ttl=600) as session:
        lock = kind(session, names)
        lock.acquire(timeout=WAIT_S).release()
        calls.clear()
        for _ in range(10):
            with lock.acquire(timeout=WAIT_S) as hold:
                assert {kv.create_revision for kv in client.get_prefix(f"{name}/").keys} == set(
                    hold.tokens.values() if isinstance(hold, MultiHold) else [hold.token]
                )
        assert calls["Txn"] == 20
        assert set(calls) <= {"Txn", "LeaseTimeToLive"}
    assert keys(client, name) == []
