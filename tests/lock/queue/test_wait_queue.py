"""The wait queue: a waiter that becomes head learns it, whatever happens to the watch in the meantime."""

from __future__ import annotations

import math
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from loadtest.stack.proxy import Proxy
from loadtest.stack.servers import Etcd
from lock import Client, Election, Hold, LockCancelled, LockLost, MultiLock, Mutex, Session, connect
from lock.etcd.stream import Watch
from lock.model import Event, KeyValue, Snapshot
from lock.queue import wait_queue
from lock.queue.wait_queue import WaitQueue
from lock.runtime.clock import now
from lock.session import queues
from tests.support.lock import WAIT_S, delete, keys, length, lock_threads, metric, put, queue_up
from tests.support.waiting import Patch, assert_raises, in_thread, in_turn, out_of_threads, wait_until


@pytest.fixture
def hold(theirs: Mutex) -> Hold:
    """The lock, held by another process."""
    return theirs.acquire(timeout=WAIT_S)


def queue_of(session: Session, name: str) -> WaitQueue:
    return session.queues.followed[f"{name}/"]


def watches(session: Session, name: str) -> bool:
    queue = session.queues.followed.get(f"{name}/")
    return queue is not None and queue.holder() is not None and queue.trouble is None


def wait_behind(hold: Hold, client: Client, session: Session) -> Future[Hold]:
    """A thread that waits behind `hold`, and has seen it at the head."""
    waiting = queue_up(client, Mutex(session, hold.name))
    wait_until(lambda: watches(session, hold.name))
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
    """The queue is listed and watched again, and the turn comes with the same key, without any audit."""
    monkeypatch.setattr(wait_queue, "_AUDIT_S", 600.0)
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
    monkeypatch.setattr(wait_queue, "_AUDIT_S", 0.2)
    with Session(both, ttl=600) as session:
        waiting = wait_behind(hold, client, session)
        proxy.blackhole()
        hold.release()
        waiting.result(10.0).release()  # gRPC's pings would take 13 s


def test_watches_are_tried_ever_less_often(session: Session, client: Client, mutex: Mutex, monkeypatch: Patch) -> None:
    """At first soon, in a long outage once a second; and soon again once there has been one."""
    with mutex.acquire(timeout=WAIT_S):
        wait_until(lambda: watches(session, mutex.name))
        queue, pauses = queue_of(session, mutex.name), list[float]()
        monkeypatch.setattr(queue._closed, "wait", pauses.append)
        for _ in range(2):
            with monkeypatch.context() as unwatched:
                unwatched.setattr(client, "watch", out_of_threads)
                assert queue._watch is not None
                queue._watch.close()
                wait_until(lambda: len(pauses) > len(wait_queue._RETRY_S))
            wait_until(lambda: queue.trouble is None)
            assert pauses[: len(wait_queue._RETRY_S) + 1] == [*wait_queue._RETRY_S, wait_queue._RETRY_S[-1]]
            pauses.clear()
        monkeypatch.undo()


# Lost deletions


class DeafClient(Client):
    """A client whose watches do not tell of deletions, as etcd's own have failed to (etcd issues 17529, 18089)."""

    def watch(self, prefix: str) -> Watch:
        watch = super().watch(prefix)
        tell = watch._event

        def event(event: Any) -> Event:
            told = tell(event)
            return Event(False, KeyValue("elsewhere", b"", 0, 0, 0)) if told.deleted else told

        watch._event = event  # type: ignore[method-assign]
        return watch


@pytest.fixture
def deaf(etcd: Etcd) -> Iterator[Session]:
    """A session that hears of no deletion."""
    with connect(etcd.endpoint) as client:
        client.__class__ = DeafClient
        with Session(client, ttl=600) as session:
            yield session


def test_an_audit_finds_a_lost_deletion(hold: Hold, client: Client, deaf: Session, monkeypatch: Patch) -> None:
    """The watch stands but has kept a DELETE to itself: a list, now and then, heals it, and the watch is made anew."""
    assert wait_queue._AUDIT_S <= 5.0, "what a lost DELETE may cost"
    monkeypatch.setattr(wait_queue, "_AUDIT_S", 0.2)
    waiting, queue = wait_behind(hold, client, deaf), queue_of(deaf, hold.name)
    deaf_watch = queue._watch
    hold.release()
    waiting.result(WAIT_S).release()
    wait_until(lambda: queue._watch is not deaf_watch)


def test_a_lost_deletion_of_the_holders_key_is_noticed_by_its_release(client: Client, deaf: Session, name: str) -> None:
    """No event has told of it, but what is to be deleted is not there: it was not ours up to this moment."""
    hold = Mutex(deaf, name).acquire(timeout=WAIT_S)
    delete(client, hold.key)
    assert_raises(LockLost, hold.release, match="gone before it was released")


def test_waiters_share_one_audit(counted: Client, calls: Counter[str], name: str) -> None:
    """However many of them find that it is due, etcd is asked once."""
    with Session(counted, ttl=600) as session, Mutex(session, name).acquire(timeout=WAIT_S):
        queue = queue_of(session, name)
        queue._audited_at, queue.trouble = -math.inf, "an error that is over"
        before = calls["Range"]
        for _ in range(5):
            queue.audit(timeout=WAIT_S)
        assert calls["Range"] == before + 1
        assert not queue.trouble


def test_an_unexpected_error_ends_no_audit(counted: Client, calls: Counter[str], name: str, monkeypatch: Patch) -> None:
    """A machine that is out of threads for a moment costs one, and the next one follows soon."""
    monkeypatch.setattr(wait_queue, "_AUDIT_S", 0.1)
    with Session(counted, ttl=600) as session, Mutex(session, name).acquire(timeout=WAIT_S):
        waiting, failed = queue_up(counted, Mutex(session, name)), threading.Event()
        with monkeypatch.context() as patched:
            patched.setattr(counted, "get_prefix", in_turn(failed.set, out_of_threads))
            assert failed.wait(WAIT_S)
        before = calls["Range"]
        wait_until(lambda: calls["Range"] > before)
        session.cancel_waiters()
        assert_raises(LockCancelled, waiting.result, WAIT_S)


# Keys that are deleted from elsewhere, or come back


def test_a_key_that_came_and_went_before_the_list(client: Client, session: Session, name: str) -> None:
    """No event tells of it, and the list does not show it; when its write is acknowledged, it is lost at once."""
    ticket = session.new_ticket(f"{name}/")
    kv = put(client, ticket.key, lease_id=session.lease_id)
    delete(client, kv.key)
    queue = session.add_ticket(f"{name}/", ticket)
    wait_until(lambda: queue._view.revision >= kv.create_revision)
    assert not ticket.lost.is_set()
    queue.written(ticket, kv.create_revision)
    assert ticket.lost.is_set()


def test_an_unacknowledged_holder_learns_of_its_loss(client: Client, session: Session, name: str) -> None:
    """Its turn came by the watch, before any answer; the key's deletion is in no event, only in the next list."""
    ticket = session.new_ticket(f"{name}/")
    queue = session.add_ticket(f"{name}/", ticket)
    kv = put(client, ticket.key, lease_id=session.lease_id)
    assert ticket.turn.wait(WAIT_S)
    assert (ticket.token, ticket.written_at) == (kv.create_revision, None)
    queue._take(Snapshot(kv.create_revision + 1, []))
    assert ticket.lost.is_set()


@pytest.mark.parametrize("told_by", ["an older key", "a list", "an event"])
def test_a_holder_that_is_not_first_any_more_is_told(client: Client, mutex: Mutex, told_by: str) -> None:
    """An older key, as after a restore, or its own made anew by a late write: others may hold, or have held."""
    hold = mutex.acquire(timeout=WAIT_S)
    revision, [own] = client.get_prefix(f"{mutex.name}/")
    restored = own._replace(key=f"{mutex.name}/restored", create_revision=own.create_revision - 1)
    again = own._replace(create_revision=revision + 1, mod_revision=revision + 1)
    if told_by == "an event":
        hold._queue._apply([Event(False, again)])
    else:
        hold._queue._take(Snapshot(revision + 1, [restored, own] if told_by == "an older key" else [again]))
    assert hold.lost.is_set()
    assert_raises(LockLost, hold.release)


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
        for lost in (leadership, forgotten):
            wait_until(lambda: early.queues.followed["forgotten/"].trouble is None)
            with Mutex(early, "forgotten").acquire(timeout=WAIT_S) as hold:
                assert hold.token < forgotten.token
                hold.ensure()
            kept.ensure()
            assert_raises(LockLost, lost.release)
        kept.release()


# What following costs


def test_threads_of_one_process_share_one_watch(etcd: Etcd, client: Client, session: Session, hold: Hold) -> None:
    """However many wait for a name, etcd has one watcher more."""
    before = metric(etcd, "etcd_debugging_mvcc_watcher_total")
    waits = [queue_up(client, Mutex(session, hold.name)) for _ in range(20)]
    wait_until(lambda: watches(session, hold.name))
    assert metric(etcd, "etcd_debugging_mvcc_watcher_total") == before + 1
    hold.release()
    for wait in waits:
        wait.result(WAIT_S).release()


def test_waiting_costs_the_same_for_many_names(etcd: Etcd, stranger: Session, name: str, monkeypatch: Patch) -> None:
    """One thread asks for one list after the other, at one pace for the process, and no waiting thread wakes for it."""
    for module, constant, value in ((queues, "_LOOK_S", 0.0), (queues, "_PACE_S", 0.05), (wait_queue, "_AUDIT_S", 0.0)):
        monkeypatch.setattr(module, constant, value)
    askers: list[str] = []

    def note(call: str, *_: object) -> None:
        if call == "Range":
            askers.append(threading.current_thread().name)

    with (
        connect(etcd.endpoint, observer=note) as client,
        Session(client, ttl=600) as session,
        MultiLock(stranger, [f"{name}/{number}" for number in range(8)]).acquire(timeout=WAIT_S) as holds,
    ):
        waits = [queue_up(stranger.client, Mutex(session, each)) for each in list(holds.tokens) * 2]
        wait_until(lambda: all(length(queue) == 3 for queue in session.queues.followed.values()))
        askers.clear()
        began = now()
        assert not session.lost.wait(0.5)
        assert 0 < len(askers) <= (now() - began) / 0.05 + 1
        assert set(askers) == {"lock-queues"}
        session.cancel_waiters()
        assert all(isinstance(wait.exception(WAIT_S), LockCancelled) for wait in waits)


def test_a_queue_is_followed_as_long_as_it_is_used(client: Client, name: str, monkeypatch: Patch) -> None:
    """Some time after the last ticket has left, thread and watch end; a holder still learns that its key is gone."""
    monkeypatch.setattr(queues, "_IDLE_S", 0.1)
    monkeypatch.setattr(queues, "_LOOK_S", 0.1)
    with Session(client, ttl=600) as session:
        for _ in range(2):
            with Mutex(session, name).acquire(timeout=WAIT_S):
                queue = queue_of(session, name)
                assert f"lock-queue {name}/" in lock_threads()
                assert not session.lost.wait(0.3)  # longer than an idle queue is followed
                assert (queue.idle_s(), queue_of(session, name)) == (0.0, queue)
                before = now()
            assert 0.0 < queue.idle_s() <= now() - before
            wait_until(lambda: not session.queues.followed)
            wait_until(lambda: f"lock-queue {name}/" not in lock_threads())
        hold = Mutex(session, name).acquire(timeout=WAIT_S)
        assert not hold.lost.wait(0.3)
        delete(client, hold.key)
        assert hold.lost.wait(WAIT_S)


def test_a_lock_per_order_follows_few_queues(client: Client, name: str, monkeypatch: Patch) -> None:
    """Of many names that were used once, those used last are followed, and those that are held."""
    monkeypatch.setattr(queues, "_IDLE_QUEUES", 3)
    monkeypatch.setattr(queues, "_IDLE_S", WAIT_S)
    with Session(client, ttl=600) as session:
        hold = Mutex(session, f"{name}/held").acquire(timeout=WAIT_S)
        for number in range(20):
            with Mutex(session, f"{name}/{number}").acquire(timeout=WAIT_S):
                assert len(session.queues.followed) <= 5  # three, the one that is held, and this one
        held, *_, first, second, third = session.queues.followed
        assert [held, first, second, third] == [f"{name}/{which}/" for which in ("held", 17, 18, 19)]
        wait_until(lambda: len([thread for thread in lock_threads() if name in thread]) == len(session.queues.followed))
        delete(client, hold.key)
        assert hold.lost.wait(WAIT_S)
        assert_raises(LockLost, hold.release)
