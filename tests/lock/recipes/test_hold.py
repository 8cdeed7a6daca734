"""A hold: its token, its end, and what can be asked of it in between."""

from __future__ import annotations

import pytest

from loadtest.stack.proxy import ANSWERS, Proxy
from loadtest.stack.servers import Etcd
from lock import Client, Hold, LockLost, Mutex, Session, connect
from tests.support.lock import AT_ONCE_S, WAIT_S, keys, queue_up
from tests.support.waiting import wait_until


@pytest.fixture
def hold(session: Session, name: str) -> Hold:
    """A lock, held."""
    return Mutex(session, name).acquire(timeout=WAIT_S)


def test_the_token_is_the_create_revision(client: Client, hold: Hold) -> None:
    """The revision at which the key was created, as etcd tells it."""
    (kv,) = client.get_prefix(f"{hold.name}/").keys
    assert (hold.key, hold.token) == (kv.key, kv.create_revision)
    hold.release()


def test_the_token_does_not_change_by_waiting(client: Client, hold: Hold, stranger: Session) -> None:
    """After a wait it is still the create revision, and not the later one that Go's client tells (etcd issue 11788)."""
    waiting = queue_up(client, Mutex(stranger, hold.name))
    client.create("hold/noise", b"", 0)
    hold.release()
    with waiting.result(AT_ONCE_S) as mine:
        (kv,) = client.get_prefix(f"{hold.name}/").keys
        assert mine.token == kv.create_revision
        assert mine.token > hold.token


def test_a_late_repetition_of_a_release_frees_nobody_elses_hold(client: Client, hold: Hold) -> None:
    """Even if a key of the same name was created since: what is deleted is this very key (etcd issue 22082)."""
    client.delete(hold.key, hold.token)
    client.create(hold.key, b"", hold._session.lease_id)
    with pytest.raises(LockLost):
        hold.release()
    assert keys(client, hold.name) == [hold.key]


def test_a_release_whose_first_answer_was_lost_is_no_loss(etcd: Etcd, proxy: Proxy, name: str) -> None:
    """The first endpoint deletes the key and its answer is lost; that the second one finds none is no alarm."""
    with connect(f"{proxy.endpoint},{etcd.endpoint}", timeout=1.0) as both, Session(both, ttl=600) as session:
        hold = Mutex(session, name).acquire(timeout=WAIT_S)
        proxy.stall(ANSWERS)
        hold.release()
        proxy.resume()
        assert keys(both, name) == []


def test_a_listener_may_release(client: Client, hold: Hold) -> None:
    """Calling back into the lock from a listener does not hang."""
    errors: list[Exception] = []

    def release() -> None:
        try:
            hold.release()
        except LockLost as error:
            errors.append(error)

    hold.on_lost(release)
    client.delete(hold.key, None)
    wait_until(lambda: errors)
