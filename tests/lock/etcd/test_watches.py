"""The stream of a client's watches: what it says when it begins, and how long it lives."""

from __future__ import annotations

import queue
import threading
from typing import Any
from unittest.mock import Mock

import pytest

from loadtest.stack.proxy import Proxy
from loadtest.stack.servers import Etcd
from lock import Client, EtcdUnavailable, Mutex, Session, connect
from tests.support.lock import WAIT_S, Changes, delete, lock_threads, metric, put, queue_up
from tests.support.waiting import Patch, wait_until


@pytest.mark.parametrize(
    ("is_known", "writes", "told"),
    [(True, 0, ["DELETE"]), (True, 1, ["begins", "DELETE"]), (False, 0, ["begins", "DELETE"])],
)
def test_a_watch_that_misses_nothing_does_not_say_that_it_begins(
    client: Client, is_known: bool, writes: int, told: list[str]
) -> None:
    """Where its listener has read the key at the revision from which etcd watches on; other keys are not told."""
    updates: queue.SimpleQueue[Any] = queue.SimpleQueue()
    kv = put(client, "watches/known/a")
    for _ in range(writes):
        put(client, "watches/known/ab")
    watch = client.watches.add(kv.key, updates.put, is_key=True, known=kv.mod_revision if is_known else 0)
    wait_until(lambda: watch.id is not None)
    put(client, "watches/known/a/b")
    for key in ("watches/known/a/b", "watches/known/ab", kv.key):
        delete(client, key)
    assert ["DELETE" if updates.get(timeout=WAIT_S) else "begins" for _ in told] == told
    client.watches.remove(watch)
    assert updates.empty()


def test_a_watch_that_has_broken_says_that_it_begins(far: Client, proxy: Proxy) -> None:
    """Though etcd has made no step meanwhile: another one may answer now."""
    updates: queue.SimpleQueue[Any] = queue.SimpleQueue()
    kv = put(far, "watches/broken/a")
    watch = far.watches.add(kv.key, updates.put, is_key=True, known=kv.mod_revision)
    wait_until(lambda: watch.id is not None)
    proxy.reset()
    assert isinstance(updates.get(timeout=WAIT_S), EtcdUnavailable)
    assert updates.get(timeout=WAIT_S) == []
    delete(far, kv.key)
    far.watches.remove(watch)


def test_waits_one_after_the_other_share_a_stream(
    etcd: Etcd, client: Client, stranger: Session, name: str, monkeypatch: Patch
) -> None:
    """It is ended when nothing was watched for a while, or when the session is closed."""
    with connect(etcd.endpoint) as waiters:
        endpoint = waiters.endpoints[0].watch
        streams = Mock(side_effect=endpoint.Watch)
        monkeypatch.setattr(endpoint, "Watch", streams)
        before = lock_threads().count("lock-watch")

        def wait_once(session: Session) -> None:
            hold = Mutex(stranger, name).acquire(timeout=WAIT_S)
            waiting = queue_up(client, Mutex(session, name))
            hold.release()
            waiting.result(WAIT_S).release()

        with Session(waiters, ttl=600) as session:
            for _ in range(3):
                wait_once(session)
            assert streams.call_count == 1
            waiters.watches.idle_s = 0.1
            wait_once(session)
            wait_until(lambda: lock_threads().count("lock-watch") == before)
            waiters.watches.idle_s = 600.0
            wait_once(session)
            assert lock_threads().count("lock-watch") == before + 1
        wait_until(lambda: lock_threads().count("lock-watch") == before)


def test_a_watch_that_is_closed_leaves_nothing(fresh_etcd: Etcd) -> None:
    """At once, when its stream may not be open yet, or later: etcd watches no more, and no thread is left."""
    before = set(threading.enumerate())
    with connect(fresh_etcd.endpoint) as client:
        for _ in range(10):
            Changes(client, "watches/early/").close()
        changes, other = Changes(client, "watches/left/"), Changes(client, "watches/stays/")
        assert changes.next(WAIT_S) == other.next(WAIT_S) == []
        wait_until(lambda: metric(fresh_etcd, "etcd_debugging_mvcc_watcher_total") == 2)
        client.watches.remove(changes._watch)
        wait_until(lambda: metric(fresh_etcd, "etcd_debugging_mvcc_watcher_total") == 1)
        other.close()
        wait_until(lambda: set(threading.enumerate()) <= before)
