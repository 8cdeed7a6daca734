"""Conformance of every recipe, for threads and for tasks, cases a to l: who holds, and how a wait ends."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest

from loadtest.stack.proxy import Proxy
from loadtest.stack.servers import Etcd
from lock import Client, EtcdUnavailable, InvalidName, LockTimeout, Mutex, NotHeld, Session, SessionLost
from lock.core import acquisition, cohort
from lock.core.queue import Queue
from tests.lock.conformance.recipes import USES, Face, Loop, Make, every
from tests.support.lock import WAIT_S, Script, await_keys, delete, keys, put, queue_up
from tests.support.waiting import Patch, assert_goes_on, assert_raises, in_thread, wait_until

OURS = [sys.executable, "-m", "lock"]
ETCDCTL = ["etcdctl", "lock"]

# a, b, c: which contenders hold, and in which order


def test_a_only_a_hold_is_released_and_once(face: Face, theirs: Face, client: Client) -> None:
    """After a release, also by an error in `with`, a hold is NotHeld, fences nothing, and no loss is told."""
    held, told = face.acquire(), list[str]()
    held.on_lost(lambda: told.append("lost"))
    with pytest.raises(ZeroDivisionError), held:
        raise ZeroDivisionError
    assert keys(client, face.name) == []
    held = face.acquire()
    held.ensure()
    assert repr(held).endswith(", held>")
    assert face.session.ttl >= held.remaining() > 0.0
    held.release()
    assert repr(held).endswith(", released>")
    assert held.remaining() == 0.0
    assert not held.lost.is_set()
    with theirs.acquire():
        before = keys(client, face.name)
        for call in (held.release, held.ensure, getattr(held, "is_owner", held.ensure)):
            assert_raises(NotHeld, call, match=face.name)
        assert keys(client, face.name) == before
    assert told == []


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


def test_c_of_five_that_try_at_once_no_more_hold_than_may(make: Make, client: Client, name: str) -> None:
    """Of five sessions no more hold than may, the others get None and leave no key; one by one, all that may do."""
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
        holds = [held for held in (face.attempt() for face in faces) if held is not None]
        assert len(holds) == len(keys(client, name)) == min(faces[0].recipe.together, 5)
        for held in holds:
            held.release()
        faces[-1].attempt().release()


# d, e, g, h: the end of a waiter, of a session, of a process


def test_d_a_waiter_in_the_middle_ends(
    make: Make, face: Face, theirs: Face, client: Client, monkeypatch: Patch
) -> None:
    """It is told SessionLost (case e); the one behind it waits on for the holder, undisturbed, and follows it."""
    monkeypatch.setattr(Queue, "audit_s", 0.5)  # a waiter watches the key before its own
    with Session(client, ttl=60, name="middle") as middle, theirs.acquire() as hold:
        ending = in_thread(make(middle).acquire)
        await_keys(client, face.name, 2)
        last = in_thread(face.turn)
        await_keys(client, face.name, 3)
        client.revoke(middle.lease_id)
        assert_raises(SessionLost, ending.result, WAIT_S, match=f"{middle.lease_id:x}")
        assert len(keys(client, face.name)) == 2
        hold.ensure()
        assert not last.done()
    last.result(WAIT_S)


def test_g_a_session_that_ends_frees_at_once(make: Make, theirs: Face, client: Client, name: str) -> None:
    """Its hold and its waits are lost, long before its next renewal, and the next one holds, with a greater token."""
    with Session(client, ttl=600, name="ending") as ending:
        face = make(ending)
        held, following = face.acquire(), in_thread(theirs.turn)
        await_keys(client, name, 2)
        own = [in_thread(face.acquire) for _ in range(2)]  # in etcd, or behind a hold of their own process
        assert_goes_on(own[0], 0.05)
        client.revoke(ending.lease_id)
        assert following.result(WAIT_S) > (face.token(held) or (0 if face.recipe.together > 1 else ()))
        assert held.lost.wait(WAIT_S)
        assert ending.lost.wait(WAIT_S)
        assert [type(each.exception(WAIT_S)) for each in own] == [SessionLost] * 2
        for call in (held.ensure, held.release):
            assert_raises(SessionLost, call, match="was revoked")


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
    for module in (acquisition, cohort):
        monkeypatch.setattr(module, "FAREWELL_S", 1.0)  # for a busy machine: the TTL is asked for
    with theirs.acquire():
        [key] = keys(client, face.name)
        began = time.monotonic()
        owner = "'value'" if face.recipe.name == "election" else "stranger"
        said = rf"(?s){face.name}.*held by .*{owner}.*{key}.*lease {theirs.session.lease_id:x} .*TTL left"
        holder = timed_out(face, match=said).holder
        assert time.monotonic() - began >= 0.1
        assert holder is not None
        assert holder.key == key
        wait_until(lambda: keys(client, face.name) == [key])


def timed_out(face: Face, *, match: str) -> LockTimeout:
    """How a wait ends that etcd has answered in time, which takes longer on a busy machine."""
    for timeout in (0.1, 1.0, 10.0):
        try:
            with pytest.raises(LockTimeout, match=match) as told, face.acquire(timeout):
                pytest.fail("runs unlocked")
        except EtcdUnavailable:
            continue
        return told.value
    raise AssertionError("etcd answered no attempt")


def test_f_a_timeout_that_means_nothing_is_refused(face: Face, client: Client) -> None:
    """The error says what to give, and nothing is written."""
    for timeout in (-1, -0.001, math.nan, "5", True):
        with pytest.raises((TypeError, ValueError), match="timeout is seconds, 0 or more, or None"):
            face.acquire(timeout)  # type: ignore[arg-type]
    assert keys(client, face.name) == []


def test_i_a_stalled_etcd_ends_every_wait(far_session: Session, proxy: Proxy, name: str, loop: Loop) -> None:
    """EtcdUnavailable with the lock's name; a timeout would claim that the lock is held, and so would a try's None."""
    faces = every(far_session, name, loop)
    proxy.stall()
    tries = [in_thread(face.attempt) for face in faces if face.can_try()]
    for attempt in tries:
        assert_raises(EtcdUnavailable, attempt.result, WAIT_S)
    for face, wait in [(face, in_thread(face.acquire, 0.3)) for face in faces]:
        assert_raises(EtcdUnavailable, wait.result, WAIT_S, match=face.name)
    proxy.resume()


def test_k_names_what_stands_below(make: Make, face: Face, session: Session, stranger: Session, client: Client) -> None:
    """A lock on `a` waits for one on `a/b` and for a stray key, and says so; `ab` is another lock, `a//b` is none."""
    stray = put(client, f"{face.name}/1", b"by hand", 0)
    [contender] = face.contenders()
    assert (contender.lease_id, contender.ttl_s) == (0, None)
    assert not face.can_try() or face.attempt() is None
    timed_out(face, match=rf"{stray.key}.*lease 0")
    delete(client, stray.key)
    with make(stranger, f"{face.name}b").acquire():
        face.acquire().release()
    with Mutex(stranger, f"{face.name}/b").acquire():
        timed_out(face, match=r"/b/.*a name below")
    with face.acquire(), Mutex(stranger, f"{face.name}/b").acquire(timeout=WAIT_S):
        pass  # the other way round there is no wait
    assert_raises(InvalidName, make, session, f"{face.name}//a")


# l: one queue for all recipes


def test_l_one_queue(
    etcd: Etcd, client: Client, session: Session, stranger: Session, etcdctl_env: dict[str, str], name: str, loop: Loop
) -> None:
    """Locks of all recipes, the command, `etcdctl lock` and the server's lock RPC: first come, first served."""
    order, waits, numbers = list[int](), [], itertools.count()
    rpc = pytest.importorskip("labs.bench.locks.rpc").LockRpc(etcd.endpoint)

    def in_process(command: list[str], number: int) -> None:
        with subprocess.Popen([*command, name], env=etcdctl_env, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            order.append(number)
            process.terminate()

    def by_rpc(number: int) -> None:
        lease = client.grant(600).id
        key = rpc.lock(name, lease, timeout=3 * WAIT_S)
        order.append(number)
        rpc.unlock(key, timeout=WAIT_S)
        client.revoke(lease)

    others: list[Callable[[int], object]] = [
        *[partial(in_process, command) for command in (ETCDCTL, OURS) * 2],
        *[by_rpc] * len(USES),
    ]
    with Mutex(stranger, name).acquire(timeout=WAIT_S):
        for use, other in zip(USES, others, strict=False):
            face, number = Face(*use, session, name, loop), next(numbers)
            waits.append(in_thread(face.turn, lambda _, number=number: order.append(number)))
            await_keys(client, name, len(waits) + 1)
            waits.append(in_thread(other, next(numbers)))
            await_keys(client, name, len(waits) + 1)
    for wait in waits:
        wait.result(3 * WAIT_S)
    rpc.close()
    assert order == list(range(len(waits)))
