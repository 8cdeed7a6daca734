"""Locks that several hold at once: readers and writers, permits, and custom rules."""

from __future__ import annotations

import pytest

from loadtest.stack.proxy import ANSWERS, Proxy
from lock import Client, Mutex, ReadWriteLock, Semaphore, Session
from lock.core.view import QueueView
from lock.errors import AdmissionConflict, EtcdUnavailable, LockTimeout, NotHeld, UpgradeRefused
from lock.model import KeyValue, Snapshot
from lock.recipes.read_write import ReadersTogether
from tests.support.lock import WAIT_S, await_keys, delete, keys, put
from tests.support.waiting import Patch, assert_goes_on, assert_raises, in_thread, in_turn, wait_until


@pytest.fixture
def lock(session: Session, name: str) -> ReadWriteLock:
    return ReadWriteLock(session, name)


def test_readers_wait_for_a_waiting_writer(
    client: Client, lock: ReadWriteLock, stranger: Session, theirs: Mutex
) -> None:
    """Fair by arrival, so that no writer starves behind a stream of readers (kazoo issue 649).

    A writer that goes on as a reader has the same key and token, and lets in the readers before the next writer.
    """
    name, elsewhere = theirs.name, ReadWriteLock(stranger, theirs.name)
    first = elsewhere.read.acquire(timeout=WAIT_S)
    writing = in_thread(lambda: lock.write.acquire(timeout=WAIT_S).downgrade())
    await_keys(client, name, 2)
    late = in_thread(elsewhere.read.acquire, timeout=WAIT_S)
    await_keys(client, name, 3)
    last = in_thread(elsewhere.write.acquire, timeout=WAIT_S)
    await_keys(client, name, 4)
    assert [each.kind for each in lock.contenders()] == ["read", "write", "read", "write"]
    assert elsewhere.read.try_acquire() is None
    assert_goes_on(writing, 0.1)
    assert not late.done()
    created = [kv.create_revision for kv in client.get_prefix(f"{name}/").keys]
    first.release()
    reader = writing.result(WAIT_S)
    assert reader.token == created[1]
    late.result(WAIT_S).release()
    assert_goes_on(last, 0.1)
    reader.release()
    last.result(WAIT_S).release()
    assert keys(client, name) == []


def test_an_unanswered_downgrade_gives_up(client: Client, far_session: Session, proxy: Proxy, name: str) -> None:
    """Readers may be in by then, so nothing may go on as if it wrote; the key is deleted."""
    hold = ReadWriteLock(far_session, name).write.acquire(timeout=WAIT_S)
    proxy.stall(ANSWERS)
    for call, error in ((hold.downgrade, EtcdUnavailable), (hold.ensure, NotHeld)):
        assert_raises(error, call)
    proxy.resume()
    await_keys(client, name, 0)


def test_an_upgrade_is_refused(lock: ReadWriteLock) -> None:
    """A reader, also one that was a writer, would wait for itself, and two for each other: they are told at once."""
    with lock.read.acquire(timeout=WAIT_S):
        lock.read.acquire(timeout=WAIT_S).release()
        assert_raises(UpgradeRefused, lock.write.acquire, timeout=WAIT_S, match="wait for each other")
        assert_raises(LockTimeout, in_thread(lock.write.acquire, timeout=1.0).result, WAIT_S)
    with lock.write.acquire(timeout=WAIT_S).downgrade():
        assert_raises(UpgradeRefused, lock.write.acquire, timeout=WAIT_S)
    lock.write.acquire(timeout=WAIT_S).release()


@pytest.mark.parametrize(("folder", "together"), [("read", True), ("write", False)])
def test_gos_rwmutex_shares_the_queue(
    client: Client, session: Session, lock: ReadWriteLock, folder: str, together: bool
) -> None:
    """Its readers' keys are readers, its writers' are not; ours stand where its readers look for writers."""
    gos = put(client, f"{lock.read.name}/{folder}/1732000000000000001", lease_id=session.lease_id)
    hold = lock.read.try_acquire()
    assert (hold is not None) is together
    assert lock.write.try_acquire() is None
    delete(client, gos.key)
    if hold is not None:
        hold.release()
    with lock.write.acquire(timeout=WAIT_S) as writer:
        assert writer.key.startswith(f"{writer.name}/write/")  # for which recipes.RWMutex.RLock waits


def test_what_is_no_reader(client: Client, session: Session, lock: ReadWriteLock) -> None:
    """The key of a mutex on NAME/read stands where readers do. Go's reader stays one, whatever is put over its key."""
    with Mutex(session, f"{lock.read.name}/read").acquire(timeout=WAIT_S):
        assert lock.read.try_acquire() is None
    gos = KeyValue("shop/read/1732000000000000001", b"", create_revision=1, mod_revision=1, lease_id=7)
    assert {ReadersTogether().kind(gos._replace(value=value)) for value in (b"", b"new", b"{}")} == {"read"}


def test_another_limit_is_an_error(client: Client, session: Session, stranger: Session, name: str) -> None:
    """A second caller with another limit is told both limits; the first ones are undisturbed.

    A semaphore is locked when no permit is free, as that of asyncio.
    """
    three, five = Semaphore(session, name, 3), Semaphore(stranger, name, 5)
    hold = three.acquire(timeout=WAIT_S)
    for attempt in (lambda: five.acquire(timeout=WAIT_S), five.try_acquire):
        assert_raises(AdmissionConflict, attempt, match="limit of 3, not 5")
    wait_until(lambda: keys(client, name) == [hold.key])  # the session deletes the key of the first one
    with three, three:
        assert three.locked()
    assert not three.locked()
    hold.release()
    with five.acquire(timeout=WAIT_S):
        assert not hasattr(hold, "token")


def test_a_departure_costs_the_same_however_many_hold(monkeypatch: Patch) -> None:
    """2,000 readers and a writer behind them: none is asked again when one after the other leaves."""
    rule, asked = ReadersTogether(), list[bool]()
    monkeypatch.setattr(ReadersTogether, "admits", in_turn(lambda: asked.append(True), lambda: True))
    readers = [KeyValue(f"q/{place}", b'{"kind": "read"}', place, place, 1) for place in range(1, 2001)]
    view = QueueView()
    view.follow(rule)
    view.replace(Snapshot(2001, [*readers, KeyValue("q/writer", b"", 2001, 2001, 1)]))
    assert len(view.advance()) == 2000
    questions = len(asked)
    for reader in readers:
        assert view.advance() == []
        view.discard(reader.key, reader.create_revision)
    assert view.advance() == [(rule, "q/writer")]
    assert len(asked) == questions < 2001
