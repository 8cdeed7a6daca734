"""The conformance cases that do not depend on a process: for each recipe, held by threads and by tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lock
from loadtest.stack.servers import Etcd
from lock import Client, LockLost, LockTimeout, Mutex, NotHeld, Session, SessionLost, aio, connect
from tests.lock.conformance.implementations import ETCDCTL, Contender
from tests.support.contracts import RECIPES, AsyncFace, Loop, Recipe
from tests.support.lock import AT_ONCE_S, WAIT_S, assert_goes_on, in_thread, keys, lock_threads, put
from tests.support.waiting import wait_until

Make = Callable[[Session], Any]


@pytest.fixture(params=["threads", "tasks"])
def loop(request: pytest.FixtureRequest) -> Iterator[Loop | None]:
    """What the recipe is for."""
    if request.param == "threads":
        yield None
        return
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture(params=RECIPES, ids=lambda each: each.name)
def recipe(request: pytest.FixtureRequest) -> Recipe:
    """Each recipe in turn."""
    found: Recipe = request.param
    return found


@pytest.fixture
def make(recipe: Recipe, loop: Loop | None, name: str) -> Make:
    """Makes it for a session."""

    def make(session: Session) -> Any:
        return AsyncFace(loop, recipe.make(aio, session, name)) if loop else recipe.make(lock, session, name)

    return make


def test_a_only_a_hold_is_released_and_once(
    client: Client, session: Session, stranger: Session, name: str, make: Make
) -> None:
    """A second release is an error and touches no other key."""
    hold = make(session).acquire(timeout=WAIT_S)
    hold.ensure()
    assert 0 < hold.remaining() <= session.ttl
    hold.release()
    with Mutex(stranger, name).acquire(timeout=WAIT_S) as theirs:
        for call in (hold.release, hold.ensure):
            with pytest.raises(NotHeld):
                call()
        assert keys(client, name) == [theirs.key]


def test_b_as_many_hold_as_may_and_the_next_ones_follow_in_order(
    client: Client, session: Session, stranger: Session, name: str, recipe: Recipe, make: Make
) -> None:
    """Over two sessions: a caller that may not hold waits for its turn, which comes in the order of arrival."""
    together = recipe.together or 3
    lock = [make(session), make(stranger)]
    holds = [lock[place % 2].acquire(timeout=WAIT_S) for place in range(together)]
    blocker = in_thread(Mutex(stranger, name).acquire, timeout=WAIT_S)
    wait_until(lambda: len(keys(client, name)) == together + 1)
    waits = []
    for place in range(2):
        waits.append(in_thread(lock[place].acquire, timeout=WAIT_S))
        wait_until(lambda: len(keys(client, name)) == together + 2 + place)  # noqa: B023
    told = lock[0].contenders()
    assert [contender.key for contender in told] == keys(client, name)
    assert [contender.holds for contender in told] == [True] * together + [False] * 3
    for hold in holds:
        assert not blocker.done()
        hold.release()
    assert_goes_on(waits[0], 0.1)
    blocker.result(WAIT_S).release()
    order = [waits[0].result(WAIT_S)]
    if recipe.together == 1:
        assert_goes_on(waits[1], 0.1)
        order[0].release()
    order.append(waits[1].result(WAIT_S))
    for hold in order[recipe.together == 1 :]:
        hold.release()
    wait_until(lambda: keys(client, name) == [])


def test_c_of_five_tries_as_many_succeed_as_may(
    client: Client, session: Session, name: str, recipe: Recipe, make: Make
) -> None:
    """The others are told None, and exactly the keys of the holders are left."""
    lock = make(session)
    tries = [lock.try_acquire() for _ in range(5)]
    holds = [hold for hold in tries if hold is not None]
    assert len(holds) == (recipe.together or 5)
    assert sorted(keys(client, name)) == sorted(hold.key for hold in holds)
    for hold in holds:
        hold.release()
    last = lock.try_acquire()
    assert last is not None
    last.release()


@pytest.mark.parametrize("ends", ["revoked", "closed"])
def test_e_a_waiter_whose_own_session_is_over_never_holds(
    client: Client, session: Session, name: str, make: Make, ends: str
) -> None:
    """SessionLost, although the turn may come at the same time; the holder is undisturbed (etcd issue 6408)."""
    with Session(client, ttl=60) as short, Mutex(session, name).acquire(timeout=WAIT_S) as hold:
        waiting = in_thread(make(short).acquire)
        wait_until(lambda: len(keys(client, name)) == 2)
        client.revoke(short.lease_id) if ends == "revoked" else short.close()
        assert isinstance(waiting.exception(WAIT_S), SessionLost)
        hold.ensure()
        assert keys(client, name) == [hold.key]


def test_f_a_wait_has_an_end(client: Client, session: Session, stranger: Session, name: str, make: Make) -> None:
    """Half a second was given: it ends then and not before, leaves no key, and names the holder's."""
    with Mutex(stranger, name).acquire(timeout=WAIT_S) as hold:
        lock, began = make(session), time.monotonic()
        with pytest.raises(LockTimeout, match=hold.key) as told:
            lock.acquire(timeout=0.5)
        assert 0.5 <= time.monotonic() - began < 0.5 + AT_ONCE_S
        assert told.value.holder is not None
        assert told.value.holder.session == "stranger"
        assert keys(client, name) == [hold.key]


def test_k_a_key_of_unknown_origin_is_exclusive(client: Client, session: Session, name: str, make: Make) -> None:
    """There is no hold beside a key that was put by hand, behind it or before it; the message names it."""
    stray = put(client, f"{name}/1", b"by hand", 0)
    lock = make(session)
    assert lock.try_acquire() is None
    with pytest.raises(LockTimeout, match=stray.key):
        lock.acquire(timeout=0.1)
    client.delete(stray.key, stray.create_revision)
    lock.acquire(timeout=WAIT_S).release()


def test_l_etcdctl_waits_in_the_same_queue(etcd: Etcd, client: Client, session: Session, name: str, make: Make) -> None:
    """`etcdctl lock` and each recipe exclude each other, in the order of arrival."""
    lock = make(session)
    hold = lock.acquire(timeout=WAIT_S)
    with Contender(ETCDCTL.command(name), etcd.endpoint) as theirs:
        wait_until(lambda: len(keys(client, name)) == 2)
        last = in_thread(lock.acquire, timeout=WAIT_S)
        wait_until(lambda: len(keys(client, name)) == 3)
        assert not theirs.holds(within=0.1)
        hold.release()
        assert theirs.holds()
        assert not last.done()
        theirs.release()
        last.result(WAIT_S).release()


def test_a_hold_whose_key_is_deleted_by_hand_is_lost(client: Client, session: Session, name: str, make: Make) -> None:
    """It learns of it, and says so; the session goes on."""
    hold = make(session).acquire(timeout=WAIT_S)
    client.delete(hold.key, None)
    assert hold.lost.wait(WAIT_S)
    for call in (hold.ensure, hold.release):
        with pytest.raises(LockLost):
            call()
    make(session).acquire(timeout=WAIT_S).release()


def test_p_nothing_is_left(etcd: Etcd, client: Client, name: str, make: Make) -> None:
    """After a session is closed, while one holds and one waits: no key and no thread."""
    before = set(lock_threads())
    with connect(etcd.endpoint) as own, Session(own) as session:
        hold = Mutex(session, name).acquire(timeout=WAIT_S)
        waiting = in_thread(make(session).acquire)
        wait_until(lambda: len(keys(client, name)) == 2)
        session.close()
        assert isinstance(waiting.exception(WAIT_S), SessionLost)
        with pytest.raises(LockLost):
            hold.release()
        assert keys(client, name) == []
        wait_until(lambda: set(lock_threads()) <= before)
