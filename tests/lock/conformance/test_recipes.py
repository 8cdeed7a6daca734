"""Conformance of every kind of lock: the cases of docs/pitfalls.md that need no process of their own."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from loadtest.stack.proxy import Proxy
from lock import (
    Client,
    CohortMutex,
    EtcdUnavailable,
    InvalidName,
    LockCancelled,
    LockLost,
    LockTimeout,
    Mutex,
    NotHeld,
    Session,
    SessionLost,
)
from tests.lock.conformance.recipes import EVERY, RECIPES, Held, Recipe
from tests.support.lock import AT_ONCE_S, WAIT_S, assert_goes_on, in_thread, keys, put, queue_up
from tests.support.waiting import wait_until


@pytest.fixture(params=RECIPES, ids=EVERY)
def kind(request: pytest.FixtureRequest) -> type[Recipe]:
    """Each kind of lock in turn."""
    kind: type[Recipe] = request.param
    return kind


@pytest.fixture
def recipe(kind: type[Recipe], session: Session, name: str) -> Recipe:
    """A lock of each kind."""
    return kind(session, name)


@pytest.fixture
def theirs(kind: type[Recipe], stranger: Session, name: str) -> Recipe:
    """The same lock, in the hands of a stranger."""
    return kind(stranger, name)


@pytest.fixture
def held(recipe: Recipe) -> Iterator[Held]:
    """The lock, held; a test that does not release it has lost it."""
    held = recipe.acquire()
    yield held
    with contextlib.suppress(LockLost, NotHeld):
        held.release()


def take_in_turn(waiter: Recipe, order: list[str], word: str) -> Any:
    """Wait for the lock, and say that it was had; its token."""
    with waiter.acquire() as held:
        order.append(word)
        return waiter.token(held)


# a, b, c: who holds, and in which order


@pytest.mark.parametrize("use", ["release", "ensure"])
def test_a_only_a_hold_is_released_and_once(
    recipe: Recipe, theirs: Recipe, held: Held, client: Client, use: str
) -> None:
    """The lock itself has no release; using a hold after its release is NotHeld and touches no other key."""
    assert not hasattr(recipe.lock, "release")
    assert recipe.session.ttl >= held.remaining() > 0.0
    held.release()
    assert held.remaining() == 0.0
    assert not held.lost.is_set()
    with theirs.acquire():
        before = keys(client, recipe.name)
        with pytest.raises(NotHeld, match=recipe.name):
            getattr(held, use)()
        assert keys(client, recipe.name) == before


def test_b_first_come_first_served(
    kind: type[Recipe], client: Client, session: Session, stranger: Session, held: Held, name: str
) -> None:
    """Waiters of two sessions, alternating, hold in the order in which they queued; `contenders` shows it."""
    order: list[str] = []
    waits = []
    for number in range(6):
        waiter = kind((stranger, session)[number % 2], name)
        waits.append(in_thread(take_in_turn, waiter, order, str(number)))
        wait_until(lambda: len(keys(client, name)) == len(waits) + 1)
    queue = kind(stranger, name).contenders()
    assert [each.key for each in queue] == keys(client, name)
    held.release()
    for each in waits:
        each.result(WAIT_S)
    assert order == [str(number) for number in range(6)]
    assert keys(client, name) == []


def test_c_one_of_five_tries_succeeds(kind: type[Recipe], client: Client, name: str) -> None:
    """Five sessions try at once: one hold, four None, one key; after the release a try succeeds again."""
    if not kind.can_try:
        pytest.skip("has no try_acquire")
    together = threading.Barrier(5)

    def attempt(recipe: Recipe) -> int:
        together.wait(WAIT_S)
        held = recipe.attempt()
        together.wait(WAIT_S)
        found = len(keys(client, name))
        together.wait(WAIT_S)
        if held is not None:
            held.release()
        return 0 if held is None else found

    with contextlib.ExitStack() as stack, ThreadPoolExecutor(5) as pool:
        locks = [kind(stack.enter_context(Session(client, name=f"try-{number}")), name) for number in range(5)]
        for _ in range(5):
            assert sorted(pool.map(attempt, locks)) == [0, 0, 0, 0, 1]
    assert keys(client, name) == []


# d, e, g: a waiter or a session ends


def test_d_a_waiter_in_the_middle_dies(
    kind: type[Recipe], theirs: Recipe, client: Client, held: Held, name: str
) -> None:
    """The waiter behind it goes on waiting for the holder, and follows it."""
    with Session(client, name="middle") as middle:
        dying = in_thread(kind(middle, name).acquire)
        wait_until(lambda: len(keys(client, name)) == 2)
        last = in_thread(take_in_turn, theirs, [], "")
        wait_until(lambda: len(keys(client, name)) == 3)
        client.revoke(middle.lease_id)
        with pytest.raises(SessionLost, match=f"{middle.lease_id:x}"):  # e: it is told at once
            dying.result(WAIT_S)
    assert not last.done()
    held.release()
    last.result(WAIT_S)


@pytest.mark.parametrize("end", ["close", "revoke"])
def test_g_a_session_that_ends_frees_at_once(
    kind: type[Recipe], theirs: Recipe, client: Client, name: str, end: str
) -> None:
    """Closed, or its lease gone: hold and waits are lost, and the next one holds, with a greater token."""
    with Session(client, name="ending") as ending:
        recipe = kind(ending, name)
        held = recipe.acquire()
        waiting = in_thread(take_in_turn, theirs, [], "")
        wait_until(lambda: len(keys(client, name)) == 2)
        own = [in_thread(recipe.acquire) for _ in range(2)]  # in etcd, or behind a hold of their own process
        assert_goes_on(own[0], 0.05)
        if end == "close":
            ending.close()
        else:
            client.revoke(ending.lease_id)
        assert waiting.result(WAIT_S) > recipe.token(held)
        assert held.lost.wait(WAIT_S)
        assert ending.lost.wait(WAIT_S)
        assert [type(each.exception(AT_ONCE_S)) for each in own] == [SessionLost] * 2
        with pytest.raises(SessionLost):
            held.ensure()
        with pytest.raises(SessionLost):
            held.release()


# f, i, k: what a wait ends with


def test_f_a_wait_has_an_end(recipe: Recipe, theirs: Recipe, client: Client) -> None:
    """It ends after the time given, names key, owner and TTL of the holder, and leaves no key; `with` never runs."""
    ran = False
    with theirs.acquire():
        [key] = keys(client, recipe.name)
        began = time.monotonic()
        with pytest.raises(LockTimeout, match=rf"(?s){recipe.name}.*{key}.*TTL left") as caught, recipe.acquire(0.2):
            ran = True
        assert 0.2 <= time.monotonic() - began < 0.2 + AT_ONCE_S
        assert caught.value.holder is not None
        assert caught.value.holder.key == key
        wait_until(lambda: keys(client, recipe.name) == [key])
    assert not ran


def test_i_a_stalled_etcd_ends_a_wait_in_time(
    kind: type[Recipe], far_session: Session, proxy: Proxy, name: str
) -> None:
    """EtcdUnavailable with the lock's name; a timeout would claim that the lock is held."""
    recipe = kind(far_session, name)
    proxy.stall()
    began = time.monotonic()
    with pytest.raises(EtcdUnavailable, match=name):
        recipe.acquire(0.3)
    assert time.monotonic() - began < 0.3 + AT_ONCE_S
    proxy.resume()


def test_k_a_name_below_is_waited_for_and_named(
    kind: type[Recipe], recipe: Recipe, stranger: Session, client: Client
) -> None:
    """A lock on `a` waits for one on `a/b`, and for a stray key, and says so; `ab` is another lock."""
    stray = put(client, f"{recipe.name}/1", b"by hand", 0)
    [contender] = recipe.contenders()
    assert (contender.lease_id, contender.ttl_s) == (0, None)
    with pytest.raises(LockTimeout, match=rf"{stray.key}.*lease 0"):
        recipe.acquire(0.1)
    client.delete(stray.key, stray.create_revision)
    with kind(stranger, f"{recipe.name}b").acquire():
        recipe.acquire().release()
        with kind(stranger, f"{recipe.name}/b").acquire(), pytest.raises(LockTimeout, match=r"/b/.*a name below"):
            recipe.acquire(0.1)
    with recipe.acquire(), kind(stranger, f"{recipe.name}/b").acquire():
        pass  # the other way round there is no wait


@pytest.mark.parametrize("timeout", [-1, -0.001, float("nan")])
def test_f_a_timeout_that_means_nothing_is_refused(recipe: Recipe, client: Client, timeout: float) -> None:
    """Negative seconds and NaN raise ValueError, and nothing is written."""
    with pytest.raises(ValueError, match="timeout"):
        recipe.acquire(timeout)
    assert keys(client, recipe.name) == []


def test_k_a_name_that_overlaps_is_refused(kind: type[Recipe], session: Session, name: str) -> None:
    """Names follow one rule, whatever the lock."""
    with pytest.raises(InvalidName):
        kind(session, f"{name}//a")


# l: one queue for all kinds


def test_l_all_kinds_wait_in_one_queue(client: Client, session: Session, stranger: Session, name: str) -> None:
    """Locks of different kinds on one name exclude each other: first come, first served."""
    order: list[str] = []
    waits = []
    with Mutex(stranger, name).acquire(timeout=WAIT_S):
        for kind, word in zip(RECIPES, EVERY, strict=True):
            waits.append(in_thread(take_in_turn, kind(session, name), order, word))
            wait_until(lambda: len(keys(client, name)) == len(waits) + 1)
    for each in waits:
        each.result(WAIT_S)
    assert order == EVERY


# m: cancellation


@pytest.mark.parametrize("holder", ["ours", "theirs"])
def test_m_cancel_ends_the_waits_and_no_hold(recipe: Recipe, theirs: Recipe, client: Client, holder: str) -> None:
    """Its waiters get LockCancelled and leave no key; the hold, and waits elsewhere or later, are not touched."""
    if not recipe.can_cancel:
        pytest.skip("has no cancel")
    with (recipe if holder == "ours" else theirs).acquire() as held:
        waits = [in_thread(recipe.acquire) for _ in range(3)]
        elsewhere = queue_up(client, Mutex(recipe.session, recipe.name))
        deadline = time.monotonic() + WAIT_S
        while not all(each.done() for each in waits):  # some may be on their way
            assert time.monotonic() < deadline
            recipe.lock.cancel()
        for each in waits:
            with pytest.raises(LockCancelled, match=recipe.name):
                each.result(0)
        wait_until(lambda: len(keys(client, recipe.name)) == 2)
        theirs.lock.cancel()
        held.ensure()
    elsewhere.result(WAIT_S).release()
    recipe.acquire().release()
    assert keys(client, recipe.name) == []


@pytest.mark.parametrize("holder", ["ours", "theirs"])
def test_m_a_draining_session_cancels_its_waits(recipe: Recipe, theirs: Recipe, client: Client, holder: str) -> None:
    """The first step of a clean stop: each wait, also a later one, ends in LockCancelled; the hold goes on."""
    if isinstance(recipe.lock, CohortMutex) and holder == "ours":
        pytest.skip("its threads learn it at the end of the turn: see test_a_draining_session_hands_no_turn_on")
    with (recipe if holder == "ours" else theirs).acquire() as held:
        [key] = keys(client, recipe.name)
        waits = [in_thread(recipe.acquire) for _ in range(3)]
        assert_goes_on(waits[0], 0.05)
        recipe.session.cancel_waiters()
        for each in waits:
            with pytest.raises(LockCancelled, match="shutting down"):
                each.result(AT_ONCE_S)
        for attempt in (recipe.acquire, *([recipe.attempt] if recipe.can_try and holder == "theirs" else [])):
            with pytest.raises(LockCancelled):
                in_thread(attempt).result(WAIT_S)
        held.ensure()
        wait_until(lambda: keys(client, recipe.name) == [key])
    assert keys(client, recipe.name) == []


# n: never two inside


def test_n_threads_and_sessions_are_never_two_inside(kind: type[Recipe], client: Client, name: str) -> None:
    """Three sessions of five threads that share a lock: one at a time inside, and tokens rise with each hold."""
    inside, tokens = threading.Lock(), []

    def work(recipe: Recipe) -> None:
        for _ in range(5):
            with recipe.acquire() as held:
                assert inside.acquire(blocking=False), "two are inside"
                tokens.append(recipe.token(held))
                held.ensure()
                inside.release()

    with contextlib.ExitStack() as stack, ThreadPoolExecutor(15) as pool:
        locks = [kind(stack.enter_context(Session(client, name=f"n-{number}")), name) for number in range(3)]
        for done in [pool.submit(work, recipe) for recipe in locks for _ in range(5)]:
            done.result(WAIT_S)
        assert keys(client, name) == []
    assert len(tokens) == 75
    assert tokens == sorted(set(tokens))


# o: a hold that is lost


def test_o_a_lost_hold_says_so_in_every_way(recipe: Recipe, held: Held, client: Client) -> None:
    """When its key is deleted by hand, every call says so, and each listener is told once, a late one at once."""
    told: list[str] = []
    held.on_lost(lambda: told.append("first"))
    held.on_lost(lambda: 1 / 0)
    held.on_lost(lambda: told.append("second"))
    client.delete(keys(client, recipe.name)[0], None)
    assert held.lost.wait(WAIT_S)
    wait_until(lambda: told == ["first", "second"])
    held.on_lost(lambda: told.append("late"))
    assert told == ["first", "second", "late"]
    assert held.remaining() == 0.0
    with pytest.raises(LockLost):
        held.ensure()
    with pytest.raises(LockLost, match=recipe.name):
        held.release()
    with pytest.raises(NotHeld):
        held.release()
    with recipe.acquire() as again:
        again.ensure()


def test_o_leaving_with_tells_of_a_loss(recipe: Recipe, client: Client) -> None:
    """A body that did not look learns at its end that the lock was not its own, unless it failed by itself."""
    for error in (None, ZeroDivisionError()):
        held = recipe.acquire()
        with pytest.raises(LockLost if error is None else ZeroDivisionError), held:  # noqa: PT012
            client.delete(keys(client, recipe.name)[0], None)
            assert held.lost.wait(WAIT_S)
            if error is not None:
                raise error


# p: nothing is left


def test_p_an_error_in_the_body_releases(recipe: Recipe, client: Client) -> None:
    """Whatever the body raises comes through, the lock is free, and no listener is told of a loss."""
    told: list[str] = []
    held = recipe.acquire()
    held.on_lost(lambda: told.append("lost"))
    with pytest.raises(ZeroDivisionError), held:
        raise ZeroDivisionError
    assert keys(client, recipe.name) == []
    recipe.acquire().release()
    assert told == []


def test_p_a_dropped_hold_frees_the_lock(recipe: Recipe, client: Client) -> None:
    """What cannot be released any more is freed, with a warning that names it."""
    with pytest.warns(ResourceWarning, match=recipe.name):
        recipe.acquire()
    wait_until(lambda: keys(client, recipe.name) == [])
    recipe.acquire().release()
