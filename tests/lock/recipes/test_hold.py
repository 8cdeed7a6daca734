"""A hold: its token, its end, `max_hold`, and what can be asked of it in between."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from loadtest.stack.proxy import ANSWERS, Proxy
from loadtest.stack.servers import Etcd
from lock import Client, Hold, HoldExpired, LockLost, Mutex, NotHeld, Session
from tests.support.lock import WAIT_S, await_keys, delete, keys, queue_up
from tests.support.waiting import assert_raises

import etcd3  # isort: skip  (after lock, which lets it run on current protobuf)

SHORT_S = 0.2


@pytest.fixture
def hold(session: Session, name: str) -> Hold:
    return Mutex(session, name).acquire(timeout=WAIT_S)


def test_the_token_does_not_change_by_waiting(client: Client, hold: Hold, stranger: Session) -> None:
    """It is the create revision, also after a wait, and not the later one that Go's client tells (etcd issue 11788)."""
    (kv,) = client.get_prefix(f"{hold.name}/").keys
    assert (hold.key, hold.token) == (kv.key, kv.create_revision)
    waiting = queue_up(client, Mutex(stranger, hold.name))
    client.create(f"{hold.name}-noise", b"", 0)
    hold.release()
    with waiting.result(WAIT_S) as mine:
        (kv,) = client.get_prefix(f"{hold.name}/").keys
        assert mine.token == kv.create_revision > hold.token


def test_a_late_repetition_of_a_release_frees_no_other_hold(client: Client, hold: Hold) -> None:
    """Even if a key of the same name was created since: what is deleted is this very key (etcd issue 22082)."""
    delete(client, hold.key)
    client.create(hold.key, b"", hold._session.lease_id)
    assert_raises(LockLost, hold.release)
    assert keys(client, hold.name) == [hold.key]


def test_a_release_whose_first_answer_was_lost_is_no_loss(both: Client, proxy: Proxy, name: str) -> None:
    """The first endpoint deletes the key and its answer is lost; that the second one finds none raises no alarm."""
    with Session(both, ttl=600) as session:
        hold = Mutex(session, name).acquire(timeout=WAIT_S)
        proxy.stall(ANSWERS)
        hold.release()
        proxy.resume()
        assert keys(both, name) == []


# max_hold


def test_a_long_hold_gives_itself_up(client: Client, session: Session, stranger: Session, name: str) -> None:
    """`lost` is set, listeners are told, the key is deleted, the next one holds; the session lives on."""
    hold, told = Mutex(session, name, max_hold=SHORT_S).acquire(timeout=WAIT_S), threading.Event()
    hold.on_lost(told.set)
    assert hold.remaining() <= SHORT_S
    with Mutex(stranger, name).acquire(timeout=WAIT_S) as following:
        assert following.token > hold.token
        assert hold.lost.is_set()
        assert told.wait(WAIT_S)
        assert hold.remaining() == 0.0
        for call, error in ((hold.ensure, HoldExpired), (hold.release, HoldExpired), (hold.release, NotHeld)):
            assert_raises(error, call, match=name)
        following.ensure()
    assert issubclass(HoldExpired, LockLost)
    assert not session.lost.is_set()
    assert keys(client, name) == []


def test_ensure_does_not_rely_on_the_timer(session: Session, name: str) -> None:
    """Its thread may be late on a busy machine, or have been frozen with the process: the time is looked at as well."""
    hold = Mutex(session, name, max_hold=SHORT_S).acquire(timeout=WAIT_S)
    assert hold._timer is not None
    session.timers.cancel(hold._timer)
    assert not hold.lost.wait(1.1 * SHORT_S)
    assert hold.remaining() == 0.0
    for call in (hold.ensure, hold.release):
        assert_raises(HoldExpired, call)


def test_a_hold_released_in_time_is_not_touched(session: Session, name: str) -> None:
    """The timer of a hold that was released does nothing to the next hold, and does not stay behind."""
    mutex = Mutex(session, name, max_hold=WAIT_S)
    for _ in range(20):
        with mutex.acquire(timeout=WAIT_S) as hold:
            hold.ensure()
    assert session.timers._scheduler.empty()


def test_many_holds_share_one_thread(client: Client, name: str) -> None:
    """All give themselves up in time, also beside one that may last very long; the thread ends with the session."""
    with Session(client, ttl=5) as session:
        far_away = [Mutex(session, f"{name}/{s}", max_hold=s).acquire(timeout=WAIT_S) for s in (math.inf, 1e12)]
        holds = [Mutex(session, f"{name}/{number}", max_hold=SHORT_S).acquire(timeout=WAIT_S) for number in range(5)]
        (timers,) = [thread for thread in threading.enumerate() if thread is session.timers._thread]
        for hold in holds:
            assert hold.lost.wait(WAIT_S)
            assert_raises(HoldExpired, hold.release)
        await_keys(client, name, len(far_away))
        for hold in far_away:
            hold.ensure()
    assert not timers.is_alive()
    for hold in far_away:
        assert_raises(LockLost, hold.release)


@pytest.mark.parametrize("max_hold", [0, -1.0, float("nan"), "3"])
def test_a_max_hold_that_makes_no_sense_is_refused(session: Session, name: str, max_hold: Any) -> None:
    """The error says what to give."""
    with pytest.raises((TypeError, ValueError), match="max_hold is seconds, more than 0"):
        Mutex(session, name, max_hold=max_hold)


# is_owner: the proof of ownership in an etcd transaction of the application


def test_only_the_owner_writes(hold: Hold, stranger: Session, etcd: Etcd) -> None:
    """A transaction under is_owner is applied while the lock is held, and refused after it has passed on."""
    host, _, port = etcd.endpoint.rpartition(":")
    with etcd3.client(host=host, port=int(port), timeout=5) as database:

        def put(condition: object, value: str) -> bool:
            return bool(database.transaction([condition], [database.transactions.put("owned", value)], [])[0])

        proof = hold.is_owner()
        assert put(proof, "first")
        hold.release()
        with Mutex(stranger, hold.name).acquire(timeout=WAIT_S) as second:
            assert put(second.is_owner(), "second")
            assert not put(proof, "late")
        assert database.get("owned")[0] == b"second"
        database.delete("owned")
