"""From a hold to the next one of the same process: at once, while what was left behind is deleted in groups."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from loadtest.stack.proxy import Proxy
from lock import Client, LockLost, LockTimeout, Mutex, Session
from lock.session import janitor
from tests.support.lock import AT_ONCE_S, WAIT_S, delete, keys, length, queue_up
from tests.support.waiting import Patch, assert_raises, in_thread, seconds, wait_until


def test_the_next_one_of_this_process_holds_before_etcd_knows(
    client: Client, far_session: Session, stranger: Session, proxy: Proxy, name: str
) -> None:
    """While the first key cannot be deleted, the second thread holds; others wait until both keys are gone."""
    hold = Mutex(far_session, name).acquire(timeout=WAIT_S)
    second, third = queue_up(client, Mutex(far_session, name)), queue_up(client, Mutex(stranger, name))
    wait_until(lambda: length(hold._queue) == 3)
    proxy.stall()
    releasing = in_thread(hold.release)
    with second.result(AT_ONCE_S) as next_hold:
        next_hold.ensure()
        assert next_hold.token > hold.token
        assert keys(client, name)[:2] == [hold.key, next_hold.key]
        assert_raises(LockTimeout, Mutex(stranger, name).acquire, timeout=0.5)
        proxy.resume()
        releasing.result(WAIT_S)
        wait_until(lambda: hold.key not in keys(client, name))
        assert not third.done()
    third.result(WAIT_S).release()


@pytest.mark.parametrize("fences", [True, False])
def test_a_fencing_key_is_deleted_first(session: Session, name: str, monkeypatch: Patch, fences: bool) -> None:
    """After `is_owner`, a transaction of this hold that arrives late must fail: no hold begins before that."""
    hold = Mutex(session, name).acquire(timeout=WAIT_S)
    second = in_thread(Mutex(session, name).acquire, timeout=WAIT_S)
    wait_until(lambda: length(hold._queue) == 2)
    delete, heads = session.janitor.delete, []

    async def watched(*args: Any, **options: Any) -> bool:
        heads.append(hold._queue.holder())
        return await delete(*args, **options)

    monkeypatch.setattr(session.janitor, "delete", watched)
    if fences:
        hold.is_owner()
    hold.release()
    assert (heads[0] is not None and heads[0].key == hold.key) is fences
    second.result(WAIT_S).release()


def test_a_hand_over_asks_etcd_for_nothing(
    counted: Client, calls: Counter[str], client: Client, name: str, monkeypatch: Patch
) -> None:
    """No list, no read, not even a bounded one; the keys of holds after each other are deleted in one transaction."""
    monkeypatch.setattr(janitor, "_COMPANY_S", WAIT_S)
    with Session(counted, ttl=600) as session:
        mutex = Mutex(session, name)
        hold = mutex.acquire(timeout=WAIT_S)
        waits = [in_thread(lambda: mutex.acquire(timeout=WAIT_S).release()) for _ in range(30)]
        wait_until(lambda: calls["Txn"] == 31 and length(hold._queue) == 31)
        calls.clear()
        hold.release()
        for wait in waits:
            wait.result(WAIT_S)
        assert calls["Txn"] == 1
        assert calls["Range"] <= 1  # an audit, if that took longer than expected
        assert keys(client, name) == []


def test_a_key_in_the_way_of_another_process_goes_at_once(
    client: Client, session: Session, stranger: Session, name: str, monkeypatch: Patch
) -> None:
    """A key that stands in another process's way is deleted at once, and those that waited for company go with it."""
    monkeypatch.setattr(janitor, "_COMPANY_S", 60 * WAIT_S)
    hold = Mutex(session, name).acquire(timeout=WAIT_S)
    second, third = queue_up(client, Mutex(session, name)), queue_up(client, Mutex(stranger, name))
    wait_until(lambda: length(hold._queue) == 3)
    releasing = in_thread(hold.release)
    last = second.result(WAIT_S)
    assert not releasing.done()
    assert seconds(last.release) < AT_ONCE_S
    releasing.result(WAIT_S)
    third.result(WAIT_S).release()
    assert keys(client, name) == []


def test_a_loss_is_told_in_a_group_too(client: Client, session: Session, name: str, monkeypatch: Patch) -> None:
    """Of two holds that leave together, the one whose key was gone gets LockLost, and the other does not."""
    monkeypatch.setattr(janitor, "_COMPANY_S", WAIT_S)
    hold = Mutex(session, name).acquire(timeout=WAIT_S)
    second = queue_up(client, Mutex(session, name))
    wait_until(lambda: length(hold._queue) == 2)
    releasing = in_thread(hold.release)
    last = second.result(WAIT_S)
    delete(client, hold.key)
    last.release()
    assert_raises(LockLost, releasing.result, WAIT_S, match="gone before")
