"""MultiLock: several names, all or nothing, without deadlock whatever the order given."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from lock import Client, InvalidName, LockCancelled, LockLost, LockTimeout, MultiLock, Mutex, NotHeld, Session
from lock.runtime.execution import Execution
from tests.support.lock import WAIT_S, await_keys, delete, keys
from tests.support.waiting import assert_raises, in_thread, wait_until


@pytest.fixture
def lock(session: Session, name: str) -> MultiLock:
    return MultiLock(session, [f"{name}/a", f"{name}/b", f"{name}/c"])


def test_all_are_held_and_all_are_released(client: Client, session: Session, stranger: Session, name: str) -> None:
    """Inside `with` no other session gets any of the names; `b` and `bb` are two, and one given twice is one."""
    names = [f"{name}/{each}" for each in ("c", "a", "b", "bb", "a")]
    lock = MultiLock(session, names)
    with lock.acquire(timeout=WAIT_S) as hold:
        assert list(hold.tokens) == sorted(set(names))
        assert {name: queue[0].token for name, queue in lock.contenders().items()} == hold.tokens
        assert all(Mutex(stranger, name).try_acquire() is None for name in names)
        proofs = {bytes(proof.key).decode(): proof.revision for proof in hold.is_owner()}
        assert proofs == {keys(client, name)[0]: hold.tokens[name] for name in names}
        assert len(keys(client, name)) == 4
    assert keys(client, name) == []
    assert_raises(NotHeld, hold.release, match=f"{name}/a")


def test_opposite_orders_do_not_deadlock(client: Client, session: Session, stranger: Session, name: str) -> None:
    """Workers that name the same locks in random order, or nested ones, all get through, never two inside a name."""
    nested = (["a", "c"], ["b", "a/b"], ["c/d"])
    inside = {each: threading.Lock() for each in ("a", "b", "c", "d", "e", "a/b", "c/d")}

    def work(number: int) -> None:
        wanted = nested[number // 2 % 3] if number % 2 else random.Random(number).sample("abcde", 3)
        names = [f"{name}/{each}" for each in wanted]
        with MultiLock((session, stranger)[number // 6 % 2], names).acquire(timeout=WAIT_S), ExitStack() as alone:
            for each in wanted:
                assert inside[each].acquire(blocking=False), f"two are inside {each}"
                alone.callback(inside[each].release)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(120)))
    assert keys(client, name) == []


def test_all_are_held_or_none(client: Client, lock: MultiLock, stranger: Session, name: str) -> None:
    """When one name is busy, at a timeout or a try, the others are free again, and the error names the busy one."""
    with Mutex(stranger, f"{name}/b").acquire(timeout=WAIT_S) as busy:
        assert_raises(LockTimeout, lock.acquire, timeout=1.0, match=rf"{name}/b.*stranger")
        wait_until(lambda: keys(client, name) == [busy.key])
        assert lock.try_acquire() is None
        assert keys(client, name) == [busy.key]
    hold = lock.try_acquire()
    assert hold is not None
    assert len(keys(client, name)) == 3
    hold.release()


def test_losing_one_is_losing_all(client: Client, lock: MultiLock, name: str) -> None:
    """When one key is deleted by hand, `lost` is set, ensure raises, and release still frees the others."""
    hold, told = lock.acquire(timeout=WAIT_S), threading.Event()
    hold.on_lost(told.set)
    delete(client, keys(client, f"{name}/b")[0])
    assert told.wait(WAIT_S)
    assert (hold.lost.is_set(), hold.remaining()) == (True, 0.0)
    for call in (hold.ensure, hold.release):
        assert_raises(LockLost, call)
    assert keys(client, name) == []


def test_a_loss_on_the_way_is_noticed(
    client: Client, session: Session, lock: MultiLock, stranger: Session, name: str
) -> None:
    """A thread that loses the first name while it waits for the second gets LockLost, never a body half locked."""
    with Mutex(stranger, f"{name}/b").acquire(timeout=WAIT_S):
        waiting = in_thread(lock.acquire, timeout=WAIT_S)
        await_keys(client, name, 3)
        (first,) = session.queues.followed[f"{name}/a/"]._tickets.values()
        delete(client, first.key)
        assert first.lost.wait(WAIT_S)
    assert_raises(LockLost, waiting.result, WAIT_S)
    await_keys(client, name, 0)


@pytest.mark.parametrize("place", [0, 1])
def test_a_cancellation_between_two_names_is_not_missed(lock: MultiLock, stranger: Session, place: int) -> None:
    """It comes when the names before are held and this one is not yet queued for: the wait for it ends at once."""
    following = lock._mutexes[place]
    begin = following.new_acquisition

    def cancelled_before_it_begins(execution: Execution) -> object:
        lock.cancel()
        return begin(execution)

    following.new_acquisition = cancelled_before_it_begins  # type: ignore[method-assign,assignment]
    with Mutex(stranger, following.name).acquire(timeout=WAIT_S), pytest.raises(LockCancelled):
        in_thread(lock.acquire, timeout=WAIT_S).result(WAIT_S)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "a name at least"),
        (["multi/a", "multi/a/b"], "below 'multi/a'"),
        (["multi/a/b/c", "multi/a"], "below 'multi/a'"),
        (["multi/a", "multi//b"], "empty part"),
        ("multi/a", "list of names"),
    ],
)
def test_names_that_make_no_sense_are_refused(session: Session, names: list[str], message: str) -> None:
    """No name, nested names, an invalid one, and one text instead of a list are InvalidName."""
    assert_raises(InvalidName, MultiLock, session, names, match=message)
