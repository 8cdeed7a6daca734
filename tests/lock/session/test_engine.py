"""A session's engine on a real etcd behind a bad network: nothing is left, nobody waits for ever, and what it costs."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from loadtest.stack.proxy import REQUESTS, Proxy
from loadtest.stack.servers import Etcd
from lock import Client, Election, EtcdUnavailable, Hold, LockLost, Mutex, Session, connect
from lock.core.queue import Queue
from lock.names import LONGEST
from tests.support.lock import (
    WAIT_S,
    await_keys,
    followed,
    keys,
    put,
    queue_up,
)  # fmt: skip
from tests.support.waiting import Patch, assert_raises, in_thread, in_turn, out_of_threads, wait_until


@pytest.fixture
def hold(theirs: Mutex) -> Hold:
    """The lock, held by another process."""
    return theirs.acquire(timeout=WAIT_S)


def wait_behind(hold: Hold, client: Client, session: Session) -> Future[Hold]:
    """A thread that waits behind `hold`, and has seen it at the head."""
    waiting = queue_up(client, Mutex(session, hold.name))
    wait_until(lambda: (followed(session, hold.name) or 0) >= 2)
    return waiting


# Disturbances that cost no place: (what happens before the release, what happens after it)

Disturbance = tuple[Callable[[Proxy], object], bool, Callable[[Proxy], object]]
DISTURBANCES: dict[str, Disturbance] = {
    "a broken connection": (lambda proxy: proxy.reset(), False, lambda proxy: None),
    "a cut, so that only a list tells": (lambda proxy: proxy.refuse(), False, lambda proxy: proxy.start()),
    "a cut and a compaction": (lambda proxy: proxy.refuse(), True, lambda proxy: proxy.start()),
    "a pause": (lambda proxy: proxy.stall(), False, lambda proxy: proxy.resume()),
    "a compaction": (lambda proxy: None, True, lambda proxy: None),
}


@pytest.mark.parametrize("disturbance", DISTURBANCES.values(), ids=DISTURBANCES)
def test_a_disturbed_watch_costs_no_place(
    hold: Hold, client: Client, far_session: Session, proxy: Proxy, etcdctl: Callable[..., str],
    disturbance: Disturbance, monkeypatch: Patch,
) -> None:  # fmt: skip
    """The queue is watched and listed again, and the turn comes with the same key, without any audit."""
    monkeypatch.setattr(Queue, "audit_s", 600.0)
    before, compacts, after = disturbance
    waiting = wait_behind(hold, client, far_session)
    key = keys(client, hold.name)[1]
    before(proxy)
    hold.release()
    if compacts:
        etcdctl("compact", str(client.get_prefix(f"{hold.name}/").revision))
    after(proxy)
    with waiting.result(WAIT_S) as mine:
        assert mine.key == key
        assert mine.token < client.get_prefix(f"{hold.name}/").revision


def test_a_dead_watch_is_found_out(hold: Hold, client: Client, both: Client, proxy: Proxy, monkeypatch: Patch) -> None:
    """The network forgets the connection without a word: an audit, at another endpoint, finds the difference."""
    monkeypatch.setattr(Queue, "audit_s", 0.2)
    with Session(both, ttl=600) as session:
        waiting = wait_behind(hold, client, session)
        proxy.blackhole()
        hold.release()
        waiting.result(10.0).release()  # gRPC's pings would take 13 s


def test_a_restored_backup_leaves_no_hold_that_etcd_has_forgotten(fresh_etcd: Etcd) -> None:
    """The lease is in the backup, the keys are not: holds are lost, and an observation tells the leader of today."""
    with connect(fresh_etcd.endpoint) as client, Session(client, ttl=600) as early, Session(client, ttl=600) as late:
        kept, office = Mutex(early, "kept").acquire(timeout=WAIT_S), Election(late, "office")
        data, backup = fresh_etcd.directory / fresh_etcd.name, fresh_etcd.directory / "backup"
        fresh_etcd.stop()
        shutil.copytree(data, backup)
        fresh_etcd.start()
        for _ in range(10):
            Mutex(early, "forgotten").acquire(timeout=WAIT_S).release()
        forgotten = Mutex(early, "forgotten").acquire(timeout=WAIT_S)
        waiting = wait_behind(forgotten, client, late)
        with office.observe() as observation:
            leadership = office.campaign("last", timeout=WAIT_S)
            assert next(observation).value == "last"
            fresh_etcd.stop()
            shutil.rmtree(data)
            backup.rename(data)
            fresh_etcd.start()
            assert forgotten.lost.wait(WAIT_S)
            assert_raises(LockLost, waiting.result, WAIT_S)
            with Election(early, "office").campaign("new", timeout=WAIT_S) as elected:
                assert in_thread(next, observation).result(WAIT_S).value == "new"
                assert elected.token < leadership.token
        assert leadership.lost.wait(WAIT_S)
        for lost in (leadership, forgotten):
            with Mutex(early, "forgotten").acquire(timeout=WAIT_S) as hold:
                assert hold.token < forgotten.token
                hold.ensure()
            kept.ensure()
            assert_raises(LockLost, lost.release)
        kept.release()


# No key that was or may have been written is left: the lease is shared and lives on


def test_a_late_write_is_deleted(client: Client, far_session: Session, proxy: Proxy, name: str) -> None:
    """The network delivers the request when its call is over: the key is deleted when it appears, and again."""
    proxy.stall(REQUESTS)
    assert_raises(EtcdUnavailable, Mutex(far_session, name).acquire, timeout=0.3)
    assert not keys(client, name)
    key = f"{name}/{far_session.lease_id:x}-1"
    wait_until(lambda: proxy.deliver(REQUESTS, through=key.encode()))
    wait_until(lambda: keys(client, name))
    proxy.reset()  # what was sent after it does not arrive
    proxy.resume()
    await_keys(client, name, 0)
    for _ in range(2):
        put(client, key, lease_id=far_session.lease_id)
        await_keys(client, name, 0)
    with Mutex(far_session, name).acquire(timeout=WAIT_S) as hold:
        assert hold.key != key  # a name in doubt is not used again
    assert not far_session.lost.is_set()


def test_a_group_fits_into_a_request(client: Client, session: Session, name: str) -> None:
    """Waits for a name as long as names can be go in transactions of a hundred, none of which is refused."""
    mutex = Mutex(session, name.ljust(LONGEST, "x"))
    with mutex.acquire(timeout=WAIT_S) as hold, ThreadPoolExecutor(150) as pool:
        waits = [pool.submit(mutex.acquire) for _ in range(150)]
        await_keys(client, mutex.name, 151)
        mutex.cancel()
        for wait in waits:
            wait.exception(WAIT_S)
        wait_until(lambda: keys(client, mutex.name) == [hold.key])


def test_an_error_that_was_not_expected_ends_no_thread(
    client: Client, session: Session, hold: Hold, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine that is out of threads for a moment: the error is logged, and what was to be done is done later."""
    failed = threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(client.watches, "add", in_turn(failed.set, out_of_threads))
        waiting = queue_up(client, Mutex(session, hold.name))
        assert failed.wait(WAIT_S)
    hold.release()
    waiting.result(WAIT_S).release()
    assert "lock.session.worker" in caplog.text
