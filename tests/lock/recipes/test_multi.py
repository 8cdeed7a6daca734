"""MultiLock: several names, all or nothing, without deadlock whatever the order given."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lock import Client, InvalidName, LockCancelled, LockLost, LockTimeout, MultiLock, Mutex, NotHeld, Session
from lock.runtime.execution import Execution
from tests.support.lock import AT_ONCE_S, WAIT_S, in_thread, keys
from tests.support.waiting import wait_until


def test_all_are_held_and_all_are_released(client: Client, session: Session, stranger: Session) -> None:
    """Inside `with` nobody else gets any of the names; afterwards no key is left."""
    names = ["multi/all/c", "multi/all/a", "multi/all/b"]
    with MultiLock(session, names).acquire(timeout=WAIT_S) as hold:
        assert list(hold.tokens) == sorted(names)
        assert all(Mutex(stranger, name).try_acquire() is None for name in names)
        assert 0.0 < hold.remaining() <= session.ttl
        hold.ensure()
        assert {bytes(proof.key).decode(): proof.revision for proof in hold.is_owner()} == {
            keys(client, name)[0]: hold.tokens[name] for name in names
        }
    assert keys(client, "multi/all") == []
    with pytest.raises(NotHeld, match="multi/all/a"):
        hold.release()


def test_opposite_orders_do_not_deadlock(client: Client, session: Session, stranger: Session) -> None:
    """Workers that name the same locks in random order all get through, and are never two inside a name."""
    names = [f"multi/orders/{letter}" for letter in "abcde"]
    inside = {name: threading.Lock() for name in names}

    def work(number: int) -> None:
        wanted = random.Random(number).sample(names, 3)
        with MultiLock((session, stranger)[number % 2], wanted).acquire(timeout=WAIT_S):
            for name in wanted:
                assert inside[name].acquire(blocking=False), f"two are inside {name}"
            for name in wanted:
                inside[name].release()

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(120)))
    assert keys(client, "multi/orders") == []


def test_nested_names_of_different_locks_do_not_deadlock(session: Session, stranger: Session) -> None:
    """One names a and c, the other a/b and b: the waits of nested names stay in order too."""

    def work(number: int) -> None:
        wanted = (["multi/nest/a", "multi/nest/c"], ["multi/nest/b", "multi/nest/a/b"], ["multi/nest/c/d"])[number % 3]
        with MultiLock((session, stranger)[number % 2], wanted).acquire(timeout=WAIT_S):
            pass

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(90)))


def test_a_timeout_leaves_nothing(client: Client, session: Session, stranger: Session) -> None:
    """When one name stays busy, the names taken before it are released, and the error names the busy one."""
    with (
        Mutex(stranger, "multi/timeout/b").acquire(timeout=WAIT_S) as busy,
        pytest.raises(LockTimeout, match=r"multi/timeout/b.*stranger"),
    ):
        MultiLock(session, ["multi/timeout/a", "multi/timeout/b", "multi/timeout/c"]).acquire(timeout=0.3)
    with pytest.raises(NotHeld):
        busy.release()
    wait_until(lambda: keys(client, "multi/timeout") == [])


def test_try_acquire_takes_all_or_none(client: Client, session: Session, stranger: Session) -> None:
    """With one name busy it returns None and keeps nothing; with all free it returns a hold."""
    lock = MultiLock(session, ["multi/try/a", "multi/try/b"])
    with Mutex(stranger, "multi/try/b").acquire(timeout=WAIT_S) as busy:
        assert lock.try_acquire() is None
        assert keys(client, "multi/try") == [busy.key]
    hold = lock.try_acquire()
    assert hold is not None
    hold.release()


def test_losing_one_is_losing_all(client: Client, session: Session) -> None:
    """When one key is deleted by hand, `lost` is set, ensure raises, and release still frees the others."""
    told = threading.Event()
    hold = MultiLock(session, ["multi/lost/a", "multi/lost/b"]).acquire(timeout=WAIT_S)
    hold.on_lost(told.set)
    client.delete(keys(client, "multi/lost/b")[0], None)
    assert told.wait(WAIT_S)
    assert hold.lost.is_set()
    assert hold.remaining() == 0.0
    with pytest.raises(LockLost):
        hold.ensure()
    with pytest.raises(LockLost):
        hold.release()
    assert keys(client, "multi/lost") == []


def test_a_lock_lost_while_waiting_for_the_next_is_noticed(client: Client, session: Session, stranger: Session) -> None:
    """Whoever loses the first name while waiting for the second gets LockLost, never a body half locked."""
    busy = Mutex(stranger, "multi/meanwhile/b").acquire(timeout=WAIT_S)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(MultiLock(session, ["multi/meanwhile/a", "multi/meanwhile/b"]).acquire, timeout=WAIT_S)
        wait_until(lambda: len(keys(client, "multi/meanwhile")) == 3)
        (first,) = session.queues.followed["multi/meanwhile/a/"]._tickets.values()
        client.delete(first.key, None)
        assert first.lost.wait(WAIT_S)
        busy.release()
        with pytest.raises(LockLost):
            waiting.result(WAIT_S)
    wait_until(lambda: keys(client, "multi/meanwhile") == [])


def test_cancel_wakes_whoever_waits_for_any_of_the_names(
    client: Client, session: Session, stranger: Session, name: str
) -> None:
    """Its waiters get LockCancelled wherever they are on their way, keep nothing, and go for no further name."""
    lock = MultiLock(session, [f"{name}/a", f"{name}/b", f"{name}/c"])
    with Mutex(stranger, f"{name}/b").acquire(timeout=WAIT_S) as busy:
        waiting = [in_thread(lock.acquire, timeout=WAIT_S) for _ in range(2)]  # one waits for b, the other for a
        wait_until(lambda: len(keys(client, name)) == 4)
        lock.cancel()
        for each in waiting:
            with pytest.raises(LockCancelled):
                each.result(AT_ONCE_S)
        wait_until(lambda: keys(client, name) == [busy.key])
    with lock.acquire(timeout=WAIT_S) as hold:  # what was cancelled were those waits, not the lock
        lock.cancel()
        hold.ensure()


@pytest.mark.parametrize("place", [0, 1])
def test_a_cancellation_between_two_names_is_not_missed(
    session: Session, stranger: Session, name: str, place: int
) -> None:
    """It comes when the names before are held and this one is not yet queued for: the wait for it ends at once."""
    lock = MultiLock(session, [f"{name}/a", f"{name}/b"])
    following = lock._mutexes[place]
    begin = following.new_acquisition

    def cancelled_before_it_begins(execution: Execution) -> object:
        lock.cancel()
        return begin(execution)

    following.new_acquisition = cancelled_before_it_begins  # type: ignore[method-assign,assignment]
    with Mutex(stranger, following.name).acquire(timeout=WAIT_S), pytest.raises(LockCancelled):
        in_thread(lock.acquire, timeout=WAIT_S).result(WAIT_S)


def test_contenders_are_listed_for_each_name(session: Session, stranger: Session, name: str) -> None:
    """Who holds and who waits for which of the names, holder first."""
    lock = MultiLock(session, [f"{name}/a", f"{name}/b"])
    with lock.acquire(timeout=WAIT_S):
        waiting = in_thread(MultiLock(stranger, [f"{name}/b"]).acquire, timeout=WAIT_S)
        wait_until(lambda: len(lock.contenders()[f"{name}/b"]) == 2)
        queues = {each: [contender.session for contender in queue] for each, queue in lock.contenders().items()}
        assert queues == {f"{name}/a": ["ours"], f"{name}/b": ["ours", "stranger"]}
    waiting.result(WAIT_S).release()


def test_a_name_given_twice_is_locked_once(client: Client, session: Session) -> None:
    """A transfer from an account to itself does not wait for itself."""
    with MultiLock(session, ["multi/twice", "multi/twice"]).acquire(timeout=1.0):
        assert len(keys(client, "multi/twice")) == 1


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
    with pytest.raises(InvalidName, match=message):
        MultiLock(session, names)


def test_siblings_with_a_common_beginning_are_not_nested(session: Session) -> None:
    """`a` and `ab` are different names and may be locked together."""
    with MultiLock(session, ["multi/sib/a", "multi/sib/ab"]).acquire(timeout=WAIT_S) as hold:
        hold.ensure()
