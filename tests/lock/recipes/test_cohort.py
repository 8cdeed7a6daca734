"""CohortMutex: threads of one process hand the lock to each other; strangers wait no longer than the bound."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from loadtest.stack.servers import Etcd
from lock import (
    Client,
    CohortMutex,
    EtcdUnavailable,
    Hold,
    LockCancelled,
    LockLost,
    LockTimeout,
    Mutex,
    NotHeld,
    Session,
    SessionLost,
    Turn,
    connect,
)
from lock.recipes.acquisition import Acquisition
from lock.recipes.cohort import _Waiter
from lock.runtime.clock import now
from tests.support.lock import AT_ONCE_S, WAIT_S, Script, in_thread, in_turn, keys, lock_until
from tests.support.waiting import wait_until


def queue_up(client: Client, mutex: Mutex, entered: threading.Event, leave: threading.Event) -> threading.Thread:
    """A thread that waits for `mutex`, says when it is in, and stays until told to leave; returns once it queues."""
    before = len(keys(client, mutex.name))

    def hold() -> None:
        with mutex.acquire(timeout=WAIT_S):
            entered.set()
            leave.wait(WAIT_S)

    thread = threading.Thread(target=hold)
    thread.start()
    wait_until(lambda: len(keys(client, mutex.name)) > before)
    return thread


def test_many_threads_share_one_key_and_are_never_two_inside(client: Client, session: Session) -> None:
    """A thousand turns of forty threads: one at a time, tokens rise strictly, and etcd sees one key at most."""
    mutex, tokens, inside = CohortMutex(session, "cohort/many"), [], threading.Lock()

    def buy(_: int) -> None:
        with mutex.acquire(timeout=WAIT_S) as turn:
            assert inside.acquire(blocking=False), "two threads are inside"
            tokens.append(turn.token)
            assert len(keys(client, "cohort/many")) == 1 if len(tokens) % 100 == 0 else True
            inside.release()

    with ThreadPoolExecutor(40) as pool:
        list(pool.map(buy, range(1000)))
    assert len(tokens) == 1000
    assert all(earlier < later for earlier, later in itertools.pairwise(tokens))
    assert len(keys(client, "cohort/many")) == 0


def test_without_strangers_the_hold_is_never_given_back(session: Session) -> None:
    """While nobody else waits, neither `batch` nor `slice` ends a hold."""
    mutex = CohortMutex(session, "cohort/alone", batch=1, slice=0.0)
    revisions = set()
    first = mutex.acquire(timeout=WAIT_S)
    with ThreadPoolExecutor(10) as pool:

        def buy(_: int) -> None:
            with mutex.acquire(timeout=WAIT_S) as turn:
                revisions.add(turn.token.create_revision)

        done = [pool.submit(buy, number) for number in range(10)]
        wait_until(lambda: len(mutex._waiters) == 10)
        first.release()
        [future.result() for future in done]
    assert revisions == {first.token.create_revision}


def test_a_stranger_gets_in_after_batch_turns(client: Client, session: Session, stranger: Session) -> None:
    """With a stranger waiting, a hold ends after `batch` turns although more threads of the process wait."""
    mutex = CohortMutex(session, "cohort/batch", batch=3, slice=WAIT_S)
    entered, leave = threading.Event(), threading.Event()
    order: list[str] = []

    def buy(_: int) -> None:
        with mutex.acquire(timeout=WAIT_S):
            order.append("stranger was in" if entered.is_set() else "before the stranger")

    first = mutex.acquire(timeout=WAIT_S)
    thread = queue_up(client, Mutex(stranger, "cohort/batch"), entered, leave)
    wait_until(first._hold.contended)
    with ThreadPoolExecutor(10) as pool:
        done = [pool.submit(buy, number) for number in range(10)]
        wait_until(lambda: len(mutex._waiters) == 10)
        first.release()
        assert entered.wait(WAIT_S)
        leave.set()
        [future.result() for future in done]
    thread.join(WAIT_S)
    assert order.count("before the stranger") == 2, "the first turn and two more make a batch of three"


def test_a_stranger_gets_in_when_the_slice_is_over(client: Client, session: Session, stranger: Session) -> None:
    """With a stranger waiting, a turn that ends after `slice` seconds is the last one of its hold."""
    mutex = CohortMutex(session, "cohort/slice", batch=1000, slice=0.0)
    entered, leave = threading.Event(), threading.Event()
    first = mutex.acquire(timeout=WAIT_S)
    thread = queue_up(client, Mutex(stranger, "cohort/slice"), entered, leave)
    wait_until(first._hold.contended)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(mutex.acquire, timeout=WAIT_S)
        wait_until(lambda: len(mutex._waiters) == 1)
        first.release()
        assert entered.wait(WAIT_S)
        assert not second.done()
        leave.set()
        second.result(WAIT_S).release()
    thread.join(WAIT_S)


@pytest.mark.parametrize("together", [True, False])
def test_turns_may_end_together_while_a_stranger_waits(
    client: Client, session: Session, stranger: Session, together: bool
) -> None:
    """With `together`, whoever has had a turn goes on only when the hold is given up; without, at once."""
    name = f"cohort/together/{together}"
    mutex = CohortMutex(session, name, slice=60 * WAIT_S, together=together)
    for _ in range(2):
        entered, leave = threading.Event(), threading.Event()
        first = mutex.acquire(timeout=WAIT_S)
        thread = queue_up(client, Mutex(stranger, name), entered, leave)
        wait_until(first._hold.contended)
        second = in_thread(mutex.acquire, timeout=WAIT_S)
        wait_until(lambda: len(mutex._waiters) == 1)
        releasing = in_thread(first.release)
        last = second.result(WAIT_S)
        assert together or releasing.result(WAIT_S) is None
        assert releasing.done() is not together
        last.release()
        releasing.result(WAIT_S)
        assert entered.wait(WAIT_S)
        leave.set()
        thread.join(WAIT_S)


def test_turns_end_together_at_the_end_of_the_slice_at_the_latest(
    client: Client, session: Session, stranger: Session
) -> None:
    """Once the slice is over, nobody who has had a turn waits for the one who still has his."""
    mutex = CohortMutex(session, "cohort/over", slice=60 * WAIT_S, together=True)
    first = mutex.acquire(timeout=WAIT_S)
    stranger_waits = in_thread(Mutex(stranger, "cohort/over").acquire, timeout=WAIT_S)
    wait_until(first._hold.contended)
    second = in_thread(mutex.acquire, timeout=WAIT_S)
    wait_until(lambda: len(mutex._waiters) == 1)
    mutex._slice = 2.0  # a moment ahead: with the slice over, the second one would get no turn
    mutex._held_since = now()
    in_thread(first.release).result(WAIT_S)
    second.result(WAIT_S).release()
    stranger_waits.result(WAIT_S).release()


def test_without_strangers_no_turn_waits_for_the_others(session: Session) -> None:
    """Where only threads of this process want the lock, `together` holds nobody up."""
    mutex = CohortMutex(session, "cohort/alone together", slice=60 * WAIT_S, together=True)
    first = mutex.acquire(timeout=WAIT_S)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(mutex.acquire, timeout=WAIT_S)
        wait_until(lambda: len(mutex._waiters) == 1)
        first.release()
        second.result(WAIT_S).release()


def test_a_leader_that_gives_up_leaves_its_place_to_the_next(
    client: Client, session: Session, stranger: Session
) -> None:
    """The key of a leader that timed out goes on waiting for the next thread, ahead of those who queued later."""
    mutex = CohortMutex(session, "cohort/heir")
    held = Mutex(stranger, "cohort/heir").acquire(timeout=WAIT_S)
    with ThreadPoolExecutor(2) as pool:
        leader = pool.submit(mutex.acquire, timeout=2.0)
        wait_until(lambda: len(keys(client, "cohort/heir")) == 2)
        key = client.get_prefix("cohort/heir/").keys[1].key
        heir = pool.submit(mutex.acquire, timeout=WAIT_S)
        wait_until(lambda: len(mutex._waiters) == 2)
        with pytest.raises(LockTimeout, match="held by stranger"):
            leader.result(WAIT_S)
        held.release()
        with heir.result(WAIT_S) as turn:
            assert turn.key == key


def test_the_last_one_to_give_up_leaves_no_key(client: Client, session: Session, stranger: Session) -> None:
    """When all threads of the process have timed out, nothing of it stands in the queue."""
    mutex = CohortMutex(session, "cohort/nobody")
    with Mutex(stranger, "cohort/nobody").acquire(timeout=WAIT_S), ThreadPoolExecutor(5) as pool:
        tries = [pool.submit(mutex.acquire, timeout=1.0) for _ in range(5)]
        for attempt in tries:
            with pytest.raises(LockTimeout, match="held by stranger"):
                attempt.result(WAIT_S)
        wait_until(lambda: len(keys(client, "cohort/nobody")) == 1)
    with mutex.acquire(timeout=WAIT_S) as turn:
        assert turn.token.turn == 1


def test_who_comes_while_the_last_one_gives_up_queues_for_himself(
    client: Client, session: Session, stranger: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that is about to be deleted is not taken over."""
    withdrawing, go_on, withdraw = threading.Event(), threading.Event(), Acquisition.withdraw

    async def withdraw_late(acquisition: Acquisition[Hold]) -> None:
        withdrawing.set()
        assert go_on.wait(WAIT_S)
        await withdraw(acquisition)

    monkeypatch.setattr(Acquisition, "withdraw", withdraw_late)
    mutex = CohortMutex(session, "cohort/late")
    with Mutex(stranger, "cohort/late").acquire(timeout=WAIT_S):
        last = in_thread(mutex.acquire, timeout=0.5)
        assert withdrawing.wait(WAIT_S)
        late = in_thread(mutex.acquire, timeout=WAIT_S)
        wait_until(lambda: len(keys(client, "cohort/late")) == 3)
        go_on.set()
        assert isinstance(last.exception(WAIT_S), LockTimeout)
    with late.result(WAIT_S) as turn:
        wait_until(lambda: keys(client, "cohort/late") == [turn.key])


def test_a_thread_times_out_behind_a_turn_of_its_own_process(session: Session) -> None:
    """The error of a thread that waits for another thread's turn names the process that holds."""
    mutex = CohortMutex(session, "cohort/inside")
    with mutex.acquire(timeout=WAIT_S), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(mutex.acquire, timeout=0.1)
        with pytest.raises(LockTimeout, match="held by ours"):
            waiting.result(WAIT_S)


def test_nobody_takes_an_outage_for_a_queue(fresh_etcd: Etcd) -> None:
    """While etcd is frozen all threads are told that it does not answer, not that others were there before them."""
    with connect(fresh_etcd.endpoint) as client, Session(client, ttl=60) as session:
        mutex = CohortMutex(session, "cohort/outage")
        fresh_etcd.pause()
        waits = [in_thread(mutex.acquire, timeout=1.5) for _ in range(8)]
        errors = [type(wait.exception(WAIT_S)) for wait in waits]
        fresh_etcd.resume()
        assert errors == [EtcdUnavailable] * 8
        mutex.acquire(timeout=WAIT_S).release()


def test_a_lost_session_ends_turns_and_waits(client: Client, session: Session) -> None:
    """When the lease is revoked, the turn is lost, whoever waits is told so at once, and nobody gets in."""
    mutex = CohortMutex(session, "cohort/lost")
    turn = mutex.acquire(timeout=WAIT_S)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(mutex.acquire, timeout=WAIT_S) for _ in range(2)]
        wait_until(lambda: len(mutex._waiters) == 2)
        client.revoke(session.lease_id)
        assert turn.lost.wait(WAIT_S)
        assert session.lost.wait(WAIT_S)
        for future in waiting:
            with pytest.raises(SessionLost):
                future.result(AT_ONCE_S)
        with pytest.raises(SessionLost):
            turn.ensure()
        with pytest.raises(LockLost):
            turn.release()


def test_holds_that_are_lost_leave_nothing_behind(client: Client, session: Session, name: str) -> None:
    """However many: the mutex hears once of the session's end, and is not remembered more than once."""
    mutex = CohortMutex(session, name)
    for _ in range(3):
        turn = mutex.acquire(timeout=WAIT_S)
        client.delete(turn.key, turn.token.create_revision)
        assert turn.lost.wait(WAIT_S)
        with pytest.raises(LockLost):
            turn.release()
    assert session.lease._listeners.count(mutex._cancel) == 1


def test_whoever_finds_the_session_lost_before_all_others_is_told(
    client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a thread on its way into a mutex that has to be told as well, because it had lost a hold before."""
    frozen, thawed = threading.Event(), threading.Event()
    with Session(client, ttl=10) as session:
        mutex = CohortMutex(session, name)
        turn = mutex.acquire(timeout=WAIT_S)
        client.delete(turn.key, turn.token.create_revision)
        assert turn.lost.wait(WAIT_S)
        with pytest.raises(LockLost):
            turn.release()
        monkeypatch.setattr(session.lease._wake, "wait", in_turn(frozen.set, partial(thawed.wait, 2 * WAIT_S)))
        assert frozen.wait(WAIT_S)
        session.lease._deadline = now()
        finding = in_thread(mutex.acquire)
        try:
            with pytest.raises(SessionLost):
                finding.result(WAIT_S)
        finally:
            thawed.set()


def test_a_draining_session_hands_no_turn_on(session: Session) -> None:
    """After `cancel_waiters` the turn that runs ends in peace, and the threads behind it are cancelled."""
    mutex = CohortMutex(session, "cohort/drain")
    turn = mutex.acquire(timeout=WAIT_S)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(mutex.acquire, timeout=WAIT_S) for _ in range(2)]
        wait_until(lambda: len(mutex._waiters) == 2)
        session.cancel_waiters()
        turn.ensure()
        turn.release()
        for future in waiting:
            with pytest.raises(LockCancelled):
                future.result(WAIT_S)


def test_cancel_wakes_all_who_wait_and_leaves_the_turn(client: Client, session: Session) -> None:
    """Threads behind a turn of this process are cancelled at once; the turn goes on, and so does who comes later."""
    mutex = CohortMutex(session, "cohort/cancel")
    turn = mutex.acquire(timeout=WAIT_S)
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(mutex.acquire, timeout=WAIT_S) for _ in range(3)]
        wait_until(lambda: len(mutex._waiters) == 3)
        mutex.cancel()
        for future in waiting:
            with pytest.raises(LockCancelled, match="cohort/cancel"):
                future.result(WAIT_S)
        turn.ensure()
        later = pool.submit(mutex.acquire, timeout=WAIT_S)
        wait_until(lambda: len(mutex._waiters) == 1)
        turn.release()
        later.result(WAIT_S).release()
    wait_until(lambda: len(keys(client, "cohort/cancel")) == 0)


def test_whoever_was_cancelled_gets_no_turn(session: Session) -> None:
    """A turn that ends before a cancelled thread has woken goes to somebody else."""
    mutex = CohortMutex(session, "cohort/slow to wake")
    asleep = _Waiter()
    with mutex.acquire(timeout=WAIT_S):
        mutex._waiters.append(asleep)
        mutex.cancel()
    assert asleep.turn is None
    mutex.acquire(timeout=WAIT_S).release()


def test_cancel_wakes_the_leader_in_etcd(client: Client, session: Session, stranger: Session) -> None:
    """Threads that wait for a stranger's hold are cancelled, and the key of their process leaves the queue."""
    mutex = CohortMutex(session, "cohort/leader")
    with Mutex(stranger, "cohort/leader").acquire(timeout=WAIT_S), ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(mutex.acquire, timeout=WAIT_S) for _ in range(3)]
        wait_until(lambda: len(mutex._waiters) == 3 and len(keys(client, "cohort/leader")) == 2)
        mutex.cancel()
        for future in waiting:
            with pytest.raises(LockCancelled):
                future.result(WAIT_S)
        wait_until(lambda: len(keys(client, "cohort/leader")) == 1)
    mutex.acquire(timeout=WAIT_S).release()


def test_who_comes_after_cancel_is_not_cancelled(
    client: Client, session: Session, stranger: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that is to lead next is cancelled before it wakes; the key that was cancelled goes with it."""
    mutex, awake, proceed = CohortMutex(session, "cohort/late"), threading.Event(), CohortMutex._proceed
    hold = Mutex(stranger, "cohort/late").acquire(timeout=WAIT_S)
    first = in_thread(mutex.acquire, timeout=2.0)
    wait_until(lambda: len(keys(client, "cohort/late")) == 2)

    def proceed_late(waiter: _Waiter, until: float) -> object:
        assert awake.wait(WAIT_S)
        return proceed(mutex, waiter, until)

    monkeypatch.setattr(mutex, "_proceed", proceed_late)
    second = in_thread(mutex.acquire, timeout=WAIT_S)
    with pytest.raises(LockTimeout):
        first.result(WAIT_S)
    mutex.cancel()
    third = in_thread(mutex.acquire, timeout=WAIT_S)
    wait_until(lambda: len(mutex._waiters) == 2)
    awake.set()
    with pytest.raises(LockCancelled):
        second.result(WAIT_S)
    wait_until(lambda: third.done() or len(keys(client, "cohort/late")) == 2)
    hold.release()
    third.result(WAIT_S).release()


def test_interrupts_at_any_moment_leave_it_usable(session: Session, interrupt: Callable[[], threading.Event]) -> None:
    """Ctrl-C fifty times, anywhere in acquire and release: other threads get in afterwards."""
    for number in range(50):
        mutex = CohortMutex(session, f"cohort/interrupt/{number}")
        lock_until(interrupt, mutex)
        in_thread(mutex.acquire, timeout=WAIT_S).result(WAIT_S).release()


def test_interrupts_at_any_moment_cost_nobody_his_turn(
    session: Session, interrupt: Callable[[], threading.Event]
) -> None:
    """Ctrl-C a hundred times while another thread takes turns, too: it goes on to do so."""
    mutex, done = CohortMutex(session, "cohort/interrupts"), threading.Event()
    other = in_thread(lock_until, lambda: done, mutex)
    for _ in range(100):
        lock_until(interrupt, mutex)
    done.set()
    other.result(WAIT_S)
    mutex.acquire(timeout=WAIT_S).release()


def test_an_interrupt_that_comes_with_the_turn_passes_it_on(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is called and interrupted at once does not keep the turn."""
    mutex = CohortMutex(session, "cohort/called")
    proceed = mutex._proceed

    def interrupted(waiter: object, until: float) -> object:
        monkeypatch.setattr(mutex, "_proceed", proceed)
        raise KeyboardInterrupt

    turn = mutex.acquire(timeout=WAIT_S)
    monkeypatch.setattr(mutex, "_proceed", interrupted)
    victim = in_thread(mutex.acquire, timeout=WAIT_S)
    wait_until(lambda: len(mutex._waiters) == 1)
    turn.release()
    assert isinstance(victim.exception(WAIT_S), KeyboardInterrupt)
    in_thread(mutex.acquire, timeout=WAIT_S).result(WAIT_S).release()


@pytest.mark.parametrize("step", ["_next_turn", "_proceed"])
def test_an_interrupt_that_comes_with_the_first_turn_passes_it_on(
    client: Client, session: Session, stranger: Session, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whoever got the lock for all and is interrupted at once leaves it to the next one: as his turn, with the key."""
    mutex = CohortMutex(session, f"cohort/leader called/{step}")
    taken = getattr(mutex, step)

    def interrupted(*args: object) -> object:
        monkeypatch.setattr(mutex, step, taken)
        taken(*args)
        raise KeyboardInterrupt

    with Mutex(stranger, mutex.name).acquire(timeout=WAIT_S):
        monkeypatch.setattr(mutex, step, interrupted)
        victim = in_thread(mutex.acquire, timeout=WAIT_S)
        wait_until(lambda: len(keys(client, mutex.name)) == 2)
        other = in_thread(mutex.acquire, timeout=WAIT_S)
        wait_until(lambda: len(mutex._waiters) == 2)
    assert isinstance(victim.exception(WAIT_S), KeyboardInterrupt)
    with other.result(WAIT_S) as turn:
        assert turn.token.turn == 2
        turn.ensure()
        assert keys(client, mutex.name) == [turn.key]


def test_a_turn_that_is_over_is_worth_nothing_and_says_nothing(session: Session) -> None:
    """The hold goes on in another thread: what is left of it is not this turn's; nobody has dropped anything."""
    mutex = CohortMutex(session, "cohort/over")
    turn = mutex.acquire(timeout=WAIT_S)
    following = in_thread(mutex.acquire, timeout=WAIT_S)
    wait_until(lambda: mutex._waiters)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        turn.release()
        with following.result(WAIT_S) as theirs:
            assert (turn.remaining(), theirs.remaining() > 0) == (0.0, True)
            del turn
            gc.collect()
    assert [str(warning.message) for warning in told if mutex.name in str(warning.message)] == []


def test_of_two_releases_at_once_one_ends_the_turn(session: Session) -> None:
    """Threads that release the same turn together end it once: the next turn is not touched."""
    mutex = CohortMutex(session, "cohort/twice")
    for _ in range(20):
        turn, barrier = mutex.acquire(timeout=WAIT_S), threading.Barrier(2)
        following = in_thread(mutex.acquire, timeout=WAIT_S)
        wait_until(lambda: len(mutex._waiters) == 1)
        releases = [in_thread(lambda turn, barrier: barrier.wait() < 0 or turn.release(), turn, barrier) for _ in "ab"]
        assert {type(release.exception(WAIT_S)) for release in releases} == {NotHeld, type(None)}
        with following.result(WAIT_S) as second:
            second.ensure()


def test_a_turn_that_is_dropped_with_its_session_says_nothing(
    client: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be passed on any more, because the session is over, is no error of anybody's."""
    heard: list[object] = []
    ended = threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", heard.append)
    mutex = CohortMutex(session, "cohort/gone")
    end = mutex.end

    def end_late(turn: Turn) -> None:
        session.lost.wait(WAIT_S)
        ended.set()
        end(turn)

    monkeypatch.setattr(mutex, "end", end_late)
    with pytest.warns(ResourceWarning, match="dropped without a release"):
        mutex.acquire(timeout=WAIT_S)
    client.revoke(session.lease_id)
    session.lease.verify()
    assert ended.wait(WAIT_S)
    wait_until(lambda: mutex._hold is None)
    assert heard == []


def test_a_forked_child_takes_no_turn(etcd: Etcd) -> None:
    """In a child the threads that would pass the turn on do not exist: every call is refused at once."""
    code = (
        "cohort = CohortMutex(session, 'cohort/fork')\n"
        "turn = cohort.acquire(timeout=20)\n"
        "if os.fork() == 0:\n"
        "    for call in (cohort.acquire, cohort.cancel, turn.release):\n"
        "        try:\n"
        "            call()\n"
        "        except ForkedError:\n"
        "            print('refused', flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "turn.release()\n"
        "print('released', flush=True)\n"
    )
    with Script(etcd.endpoint, "cohort/fork", code) as script:
        assert [script.says() for _ in range(4)] == ["refused", "refused", "refused", "released"]


@pytest.mark.parametrize("bounds", [{"batch": 0}, {"slice": -0.1}, {"slice": float("nan")}, {"batch": "3"}])
def test_bounds_that_mean_nothing_are_refused(session: Session, bounds: dict[str, Any]) -> None:
    """`batch` below one and a negative `slice` are errors at once."""
    with pytest.raises((TypeError, ValueError), match=r"(batch|slice) is .*(0|1) or more"):
        CohortMutex(session, "cohort/bounds", **bounds)
