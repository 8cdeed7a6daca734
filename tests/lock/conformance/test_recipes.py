"""Conformance of every recipe, for threads and for tasks: the cases of docs/pitfalls.md, from one contract."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from loadtest.stack.proxy import Proxy
from loadtest.stack.servers import Etcd
from lock import (
    Client,
    EtcdUnavailable,
    InvalidName,
    LockCancelled,
    LockLost,
    LockTimeout,
    Mutex,
    NotHeld,
    Session,
    SessionLost,
    connect,
)
from lock.recipes import acquisition
from tests.lock.conformance.conftest import Contend
from tests.lock.conformance.implementations import ETCDCTL
from tests.lock.conformance.recipes import COHORT, IDS, USES, Face, Loop, every
from tests.support.lock import (
    WAIT_S,
    Patch,
    Script,
    assert_goes_on,
    assert_raises,
    await_keys,
    in_thread,
    keys,
    lock_threads,
    put,
    queue_up,
)
from tests.support.waiting import wait_until

Make = Callable[..., Face]


@pytest.fixture(params=USES, ids=IDS)
def make(request: pytest.FixtureRequest, name: str) -> Make:
    """Makes each recipe in turn for a session, on the name of the test unless told otherwise."""
    recipe, tasks = request.param
    loop = request.getfixturevalue("loop") if tasks else None
    return lambda session, at=name: Face(recipe, tasks, session, at, loop)


@pytest.fixture
def face(make: Make, session: Session) -> Face:
    """A lock of each recipe."""
    return make(session)


@pytest.fixture
def theirs(face: Face, stranger: Session) -> Face:
    """What excludes it, in another process."""
    return face.rival(stranger)


# a, b, c: which contenders hold, and in which order


def test_a_only_a_hold_is_released_and_once(face: Face, theirs: Face, client: Client) -> None:
    """The lock itself has no release; using a hold after its release is NotHeld and touches no other key."""
    held = face.acquire()
    held.ensure()
    assert not hasattr(face.lock, "release")
    assert face.session.ttl >= held.remaining() > 0.0
    held.release()
    assert (held.remaining(), held.lost.is_set()) == (0.0, False)
    with theirs.acquire():
        before = keys(client, face.name)
        for call in (held.release, held.ensure):
            assert_raises(NotHeld, call, match=face.name)
        assert keys(client, face.name) == before


def test_b_others_follow_in_order(make: Make, client: Client, session: Session, stranger: Session, name: str) -> None:
    """Over two sessions; `contenders` tells which keys hold, and the order of those that wait."""
    together, order = make(session).recipe.together, list[int]()
    holds = [make((session, stranger)[place % 2]).acquire() for place in range(min(together, 3))]
    blocker, waits = queue_up(client, Mutex(stranger, name)), []
    for place in range(4):
        waits.append(in_thread(make((stranger, session)[place % 2]).turn, lambda _, place=place: order.append(place)))
        await_keys(client, name, len(holds) + 2 + place)
    told = make(stranger).contenders()
    assert [contender.key for contender in told] == keys(client, name)
    assert [contender.holds for contender in told] == [True] * len(holds) + [False] * 5
    for hold in holds:
        assert not blocker.done()
        hold.release()
    with blocker.result(WAIT_S):
        assert_goes_on(waits[0], 0.1)
    for wait in waits:
        wait.result(WAIT_S)
    assert together > 1 or order == [0, 1, 2, 3]
    wait_until(lambda: keys(client, name) == [])


def test_c_of_five_tries_as_many_succeed_as_may(make: Make, client: Client, session: Session, name: str) -> None:
    """The others are told None, and the keys of the holders are left; after the releases a try succeeds again."""
    faces = [make(session) for _ in range(5)]
    if not faces[0].can_try():
        pytest.skip("has no try_acquire")
    holds = [held for held in (face.attempt() for face in faces) if held is not None]
    assert len(holds) == len(keys(client, name)) == min(faces[0].recipe.together, 5)
    for held in holds:
        held.release()
    faces[-1].attempt().release()


def test_c_of_five_that_try_at_once_no_more_hold_than_may(make: Make, client: Client, name: str) -> None:
    """Five sessions: where one may hold, one does and leaves one key, and four are told None."""
    at_once = threading.Barrier(5)

    def attempt(face: Face) -> int:
        at_once.wait(WAIT_S)
        held = face.attempt()
        at_once.wait(WAIT_S)
        found = len(keys(client, name))
        at_once.wait(WAIT_S)
        if held is not None:
            held.release()
        return 0 if held is None else found

    with ExitStack() as stack, ThreadPoolExecutor(5) as pool:
        faces = [make(stack.enter_context(Session(client, name=f"try-{number}"))) for number in range(5)]
        if not faces[0].can_try():
            pytest.skip("has no try_acquire")
        for _ in range(3):
            found = sorted(pool.map(attempt, faces))
            if faces[0].recipe.together == 1:
                assert found == [0, 0, 0, 0, 1]
            assert sum(number > 0 for number in found) <= faces[0].recipe.together
    wait_until(lambda: keys(client, name) == [])


# d, e, g, h: the end of a waiter, of a session, of a process


@pytest.mark.parametrize("ends", ["revoked", "closed"])
def test_d_a_waiter_in_the_middle_ends(make: Make, face: Face, theirs: Face, client: Client, ends: str) -> None:
    """It is told SessionLost (case e); the one behind it waits on for the holder, undisturbed, and follows it."""
    with Session(client, ttl=60, name="middle") as middle, theirs.acquire() as hold:
        ending = in_thread(make(middle).acquire)
        await_keys(client, face.name, 2)
        last = in_thread(face.turn)
        await_keys(client, face.name, 3)
        client.revoke(middle.lease_id) if ends == "revoked" else middle.close()
        assert_raises(SessionLost, ending.result, WAIT_S, match=f"{middle.lease_id:x}")
        assert len(keys(client, face.name)) == 2
        hold.ensure()
        assert not last.done()
    last.result(WAIT_S)


@pytest.mark.parametrize("ends", ["revoked", "closed"])
def test_g_a_session_that_ends_frees_at_once(make: Make, theirs: Face, client: Client, name: str, ends: str) -> None:
    """Its hold and its waits are lost, and the next one holds, with a greater token."""
    with Session(client, ttl=60, name="ending") as ending:
        face = make(ending)
        held, following = face.acquire(), in_thread(theirs.turn)
        await_keys(client, name, 2)
        own = [in_thread(face.acquire) for _ in range(2)]  # in etcd, or behind a hold of their own process
        assert_goes_on(own[0], 0.05)
        client.revoke(ending.lease_id) if ends == "revoked" else ending.close()
        assert following.result(WAIT_S) > (face.token(held) or (0 if face.recipe.together > 1 else ()))
        assert held.lost.wait(WAIT_S)
        assert ending.lost.wait(WAIT_S)
        assert [type(each.exception(WAIT_S)) for each in own] == [SessionLost] * 2
        for call in (held.ensure, held.release):
            assert_raises(SessionLost, call)


def test_g_a_kill_blocks_for_the_ttl(etcd: Etcd, client: Client, stranger: Session, name: str, loop: Loop) -> None:
    """After kill -9, what waits behind its holds, one of each recipe, holds when the TTL is over, and not before."""
    code = f"""
from tests.lock.conformance.recipes import Loop, every
holds = [face.acquire() for face in every(session, {name!r}, Loop())]
say(session.lease_id)
hear()
"""
    with Script(etcd.endpoint, name, code, ttl=2) as holder:
        lease, held_at = int(holder.says()), list[float]()
        rivals = [face.rival(stranger) for face in every(stranger, name, loop)]
        waits = [in_thread(rival.turn, lambda _: held_at.append(time.monotonic())) for rival in rivals]
        await_keys(client, name, 2 * len(rivals))
        renewed = time.monotonic()
        client.keep_alive(lease)
        holder.process.kill()
        for wait in waits:
            wait.result(WAIT_S)
    assert min(held_at) >= renewed + 2


@pytest.mark.slow
def test_h_holds_outlive_their_ttl(client: Client, stranger: Session, name: str, loop: Loop) -> None:
    """Held for three times the TTL that was granted, each recipe is still held."""
    with Session(client, ttl=1) as session:
        holds = [face.acquire() for face in every(session, name, loop)]
        before = keys(client, name)
        assert not session.lost.wait(3 * session.ttl)
        for held in holds:
            held.ensure()
        assert keys(client, name) == before
        for face in every(stranger, name, loop):
            assert Mutex(stranger, face.name).try_acquire() is None
        for held in holds:
            held.release()


# f, i, k: how a wait ends


def test_f_a_wait_has_an_end(face: Face, theirs: Face, client: Client, monkeypatch: Patch) -> None:
    """It ends after the time given, names key, owner and TTL of the holder, and leaves no key; `with` never runs."""
    monkeypatch.setattr(acquisition, "_FAREWELL_S", WAIT_S)  # for a busy machine: the TTL is asked for
    with theirs.acquire():
        [key] = keys(client, face.name)
        began = time.monotonic()
        with pytest.raises(LockTimeout, match=rf"(?s){face.name}.*{key}.*TTL left") as caught, face.acquire(0.2):
            pytest.fail("runs unlocked")
        assert time.monotonic() - began >= 0.2
        assert caught.value.holder is not None
        assert caught.value.holder.key == key
        wait_until(lambda: keys(client, face.name) == [key])


def test_f_a_timeout_that_means_nothing_is_refused(face: Face, client: Client) -> None:
    """The error says what to give, and nothing is written."""
    for timeout in (-1, -0.001, math.nan, "5", True):
        with pytest.raises((TypeError, ValueError), match="timeout is seconds, 0 or more, or None"):
            face.acquire(timeout)  # type: ignore[arg-type]
    assert keys(client, face.name) == []


def test_i_a_stalled_etcd_ends_every_wait(far_session: Session, proxy: Proxy, name: str, loop: Loop) -> None:
    """EtcdUnavailable with the lock's name; a timeout would claim that the lock is held."""
    faces = every(far_session, name, loop)
    proxy.stall()
    for face, wait in [(face, in_thread(face.acquire, 0.3)) for face in faces]:
        assert_raises(EtcdUnavailable, wait.result, WAIT_S, match=face.name)
    proxy.resume()


def test_k_names_what_stands_below(make: Make, face: Face, session: Session, stranger: Session, client: Client) -> None:
    """A lock on `a` waits for one on `a/b` and for a stray key, and says so; `ab` is another lock, `a//b` is none."""
    stray = put(client, f"{face.name}/1", b"by hand", 0)
    [contender] = face.contenders()
    assert (contender.lease_id, contender.ttl_s) == (0, None)
    assert not face.can_try() or face.attempt() is None
    assert_raises(LockTimeout, face.acquire, 0.1, match=rf"{stray.key}.*lease 0")
    client.delete(stray.key, stray.create_revision)
    with make(stranger, f"{face.name}b").acquire():
        face.acquire().release()
    with Mutex(stranger, f"{face.name}/b").acquire(), pytest.raises(LockTimeout, match=r"/b/.*a name below"):
        face.acquire(0.1)
    with face.acquire(), Mutex(stranger, f"{face.name}/b").acquire(timeout=WAIT_S):
        pass  # the other way round there is no wait
    assert_raises(InvalidName, make, session, f"{face.name}//a")


# l: one queue for all recipes


def test_l_one_queue(
    client: Client, session: Session, stranger: Session, start: Contend, name: str, loop: Loop
) -> None:
    """Locks of all recipes and `etcdctl lock` exclude each other on one name: first come, first served."""
    order, waits, numbers = list[int](), [], itertools.count()

    def in_process(number: int) -> None:
        contender = start(ETCDCTL, name)
        assert contender.holds()
        order.append(number)
        contender.release()

    with Mutex(stranger, name).acquire(timeout=WAIT_S):
        for use in USES:
            face, number = Face(*use, session, name, loop), next(numbers)
            waits.append(in_thread(face.turn, lambda _, number=number: order.append(number)))
            await_keys(client, name, len(waits) + 1)
            waits.append(in_thread(in_process, next(numbers)))
            await_keys(client, name, len(waits) + 1)
    for wait in waits:
        wait.result(WAIT_S)
    assert order == list(range(len(waits)))


# m: cancellation


def test_m_one_wait_is_cancelled(make: Make, face: Face, theirs: Face, client: Client, session: Session) -> None:
    """By its token, or by the cancellation of its task: it leaves no key, and other waits and holds go on."""
    with theirs.acquire() as held:
        other = in_thread(make(session).turn)
        await_keys(client, face.name, 2)
        waiting, cancel = face.cancellable()
        await_keys(client, face.name, 3)
        cancel()
        assert_raises(face.cancelled, waiting.result, WAIT_S)
        await_keys(client, face.name, 2)
        held.ensure()
    other.result(WAIT_S)


@pytest.mark.parametrize("holder", ["ours", "theirs"])
def test_m_cancel_ends_the_waits_and_no_hold(face: Face, theirs: Face, client: Client, holder: str) -> None:
    """Waiters of the object get LockCancelled and leave no key; holds, and waits elsewhere or later, go on."""
    if not hasattr(face.lock, "cancel"):
        pytest.skip("has no cancel")
    with (face if holder == "ours" and face.recipe.together == 1 else theirs).acquire() as held:
        waits = [in_thread(face.acquire) for _ in range(3)]
        elsewhere = queue_up(client, Mutex(face.session, face.name))
        deadline = time.monotonic() + WAIT_S
        while not all(each.done() for each in waits):  # some may be on their way
            assert time.monotonic() < deadline
            face.lock.cancel()
        for each in waits:
            assert_raises(LockCancelled, each.result, 0, match=face.name)
        await_keys(client, face.name, 2)
        theirs.lock.cancel()
        held.ensure()
    elsewhere.result(WAIT_S).release()
    face.acquire().release()
    assert keys(client, face.name) == []


@pytest.mark.parametrize("holder", ["ours", "theirs"])
def test_m_a_draining_session_cancels_its_waits(face: Face, theirs: Face, client: Client, holder: str) -> None:
    """The first step of a clean stop: each wait, also a later one, ends in LockCancelled; the hold goes on."""
    if face.recipe is COHORT and holder == "ours":
        pytest.skip("its threads learn it at the end of the turn: see test_a_draining_session_hands_no_turn_on")
    with (face if holder == "ours" and face.recipe.together == 1 else theirs).acquire() as held:
        [key] = keys(client, face.name)
        waits = [in_thread(face.acquire) for _ in range(3)]
        assert_goes_on(waits[0], 0.05)
        face.session.cancel_waiters()
        for attempt in (face.acquire, *([face.attempt] if face.can_try() and holder == "theirs" else [])):
            waits.append(in_thread(attempt))
        for wait in waits:
            assert_raises(LockCancelled, wait.result, WAIT_S, match="shutting down")
        held.ensure()
        wait_until(lambda: keys(client, face.name) == [key])
    assert keys(client, face.name) == []


# n: never more inside than may be


def test_n_never_more_are_inside_than_may(make: Make, client: Client, name: str) -> None:
    """Three sessions of five threads or tasks, and a mutex that is alone: tokens of exclusive holds rise."""
    gate, inside, tokens, together = threading.Lock(), list[str](), list[Any](), []

    def enter(face: Face, held: Any) -> None:
        with gate:
            inside.append(face.recipe.name)
            assert len(inside) == 1 or (len(inside) <= face.recipe.together and len(set(inside)) == 1), inside
            together.append(len(inside))
            tokens.append(face.token(held))
        held.ensure()
        time.sleep(0.001)
        with gate:
            inside.remove(face.recipe.name)

    def work(face: Face) -> None:
        for _ in range(5):
            face.turn(lambda held: enter(face, held))

    with ExitStack() as stack:
        faces = [make(stack.enter_context(Session(client, name=f"n-{number}"))) for number in range(3)]
        rivals = [face.rival(face.session) for face in faces if face.recipe.together > 1]
        for done in [in_thread(work, face) for face in [*faces * 5, *rivals]]:
            done.result(3 * WAIT_S)
        assert keys(client, name) == []
    if rivals:
        assert max(together) > 1
    else:
        assert len(tokens) == 75
        assert tokens == sorted(set(tokens))


# o: a hold that is lost


def test_o_a_lost_hold_says_so_in_every_way(face: Face, client: Client) -> None:
    """When its key is deleted by hand, every call says so, and each listener is told once, a late one at once."""
    held, told = face.acquire(), list[str]()
    held.on_lost(lambda: told.append("first"))
    held.on_lost(lambda: 1 / 0)
    held.on_lost(lambda: told.append("second"))
    client.delete(keys(client, face.name)[0], None)
    assert held.lost.wait(WAIT_S)
    wait_until(lambda: told == ["first", "second"])
    held.on_lost(lambda: told.append("late"))
    assert told == ["first", "second", "late"]
    assert held.remaining() == 0.0
    assert_raises(LockLost, held.ensure)
    assert_raises(LockLost, held.release, match=face.name)
    assert_raises(NotHeld, held.release)
    face.turn(lambda again: again.ensure())


def test_o_leaving_with_tells_of_a_loss(face: Face, client: Client) -> None:
    """A body that did not look learns at its end that the lock was not its own, unless it failed by itself."""
    for error in (None, ZeroDivisionError()):
        held = face.acquire()
        with pytest.raises(LockLost if error is None else ZeroDivisionError), held:  # noqa: PT012
            client.delete(keys(client, face.name)[0], None)
            assert held.lost.wait(WAIT_S)
            if error is not None:
                raise error


# p: nothing is left


def test_p_an_error_in_the_body_releases(face: Face, client: Client) -> None:
    """Whatever the body raises comes through, the lock is free, and no listener is told of a loss."""
    held, told = face.acquire(), list[str]()
    held.on_lost(lambda: told.append("lost"))
    with pytest.raises(ZeroDivisionError), held:
        raise ZeroDivisionError
    assert keys(client, face.name) == []
    face.acquire().release()
    assert told == []


def test_p_a_dropped_hold_frees_the_lock(face: Face, client: Client) -> None:
    """What cannot be released any more is freed, with a warning that names it."""

    def drop() -> None:
        face.acquire()
        wait_until(lambda: keys(client, face.name) == [])

    with pytest.warns(ResourceWarning, match=face.name):
        drop()
    face.acquire().release()


def test_p_nothing_is_left(etcd: Etcd, client: Client, stranger: Session, name: str, loop: Loop) -> None:
    """After a session is closed, while each recipe holds or waits: no key, no lease and no thread."""
    before = set(lock_threads())
    with connect(etcd.endpoint) as own, Session(own) as session:
        faces = every(session, name, loop)
        holds = [face.acquire() for face in faces]
        waits = [in_thread(face.rival(session).acquire) for face in faces]
        await_keys(client, name, 2 * len(faces))
        session.close()
        for wait, held in zip(waits, holds, strict=True):
            assert isinstance(wait.exception(WAIT_S), SessionLost)
            assert_raises(LockLost, held.release)
        assert keys(client, name) == []
        assert client.time_to_live(session.lease_id).ttl == -1
    wait_until(lambda: set(lock_threads()) <= before)
