"""The session: one lease per process, kept alive, and known to be lost in time; its end, and what comes after."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from loadtest.stack.proxy import ANSWERS, Proxy
from loadtest.stack.servers import Etcd
from lock import (
    Client,
    EtcdUnavailable,
    KeyValue,
    LeaseNotFound,
    LockCancelled,
    LockError,
    LockTimeout,
    Mutex,
    Session,
    SessionLost,
    connect,
)
from lock.queue import wait_queue
from lock.queue.ticket import Ticket
from lock.queue.wait_queue import WaitQueue
from lock.runtime.clock import now
from lock.session import lease as kept_lease
from tests.support.lock import (
    AT_ONCE_S,
    WAIT_S,
    Patch,
    Script,
    assert_goes_on,
    assert_raises,
    await_keys,
    in_thread,
    in_turn,
    keys,
    lock_threads,
    out_of_threads,
    queue_up,
)
from tests.support.waiting import freeze, wait_until


def heal(proxy: Proxy) -> None:
    """Let the test end without waiting for deadlines."""
    proxy.resume()
    proxy.reset()
    proxy.start()


@pytest.mark.parametrize("ttl", [0, -1, 1.5, 10**12, "5", None, True])
def test_a_ttl_is_a_positive_whole_number(client: Client, ttl: Any) -> None:
    """Anything else is refused before etcd is asked."""
    assert_raises((TypeError, ValueError), Session, client, ttl=ttl, match="ttl is a whole number of seconds")


def test_what_cannot_be_opened_leaves_no_thread(client: Client) -> None:
    """EtcdUnavailable without etcd, within the deadline; LeaseNotFound for a lease that is gone."""
    with connect("127.0.0.1:9", timeout=0.5) as nowhere:
        assert_raises(EtcdUnavailable, Session, nowhere)
    assert_raises(LeaseNotFound, Session, client, lease_id=1234567, match="take over")
    assert not lock_threads()


# The lease


def test_the_ttl_is_what_the_server_granted(client: Client) -> None:
    """etcd makes two seconds of one; the local deadline uses them, and etcd never has less than we believe."""
    before = now()
    with Session(client, ttl=1) as session:
        assert session.ttl == client.time_to_live(session.lease_id).granted_ttl == 2
        assert session.lease._deadline >= before + 2.0
        assert session.remaining() <= 2.0


def test_a_hold_outlives_its_ttl_while_the_holder_is_busy(client: Client, name: str) -> None:
    """A thread of the session renews: a caller that computes for longer than the TTL still holds (pitfall 20)."""
    with Session(client, ttl=1) as session, Mutex(session, name).acquire(timeout=WAIT_S) as hold:
        end = time.monotonic() + 1.2 * session.ttl
        while time.monotonic() < end:
            assert hold.remaining() > 0
        hold.ensure()
        assert keys(client, name) == [hold.key]


def test_the_deadline_counts_from_when_a_renewal_was_sent(proxy: Proxy, far: Client) -> None:
    """An answer that was long under way leaves less, of the grant as well: etcd's clock started before it."""
    far.status()
    proxy.stall(ANSWERS)
    opening = in_thread(Session, far, ttl=30)
    assert_goes_on(opening, 0.6)
    proxy.resume()
    with opening.result(WAIT_S) as session:
        assert session.remaining() <= 30 - 0.6
        proxy.stall(ANSWERS)
        renewal = in_thread(session.lease.verify)
        assert_goes_on(renewal, 0.6)
        proxy.resume()
        assert renewal.result(WAIT_S) <= 30 / 3 - 0.6
        assert session.remaining() <= 30 - 0.6


@pytest.fixture
def busy(counted: Client, monkeypatch: Patch) -> Iterator[Session]:
    """A session whose thread wakes much more often than its lease is to be renewed."""
    monkeypatch.setattr(kept_lease, "_SLEEP_S", 0.01)
    with Session(counted, ttl=600) as session:
        yield session


def test_it_is_renewed_only_when_due(busy: Session, calls: Counter[str], monkeypatch: Patch) -> None:
    """The thread wakes more often than every third of the TTL, and asks etcd for nothing then, nor after a look."""
    runs, wait = list[float](), busy.lease._wake.wait

    def counted_wait(pause: float) -> bool:
        runs.append(pause)
        return wait(pause)

    monkeypatch.setattr(busy.lease._wake, "wait", counted_wait)
    wait_until(lambda: len(runs) > 20)
    assert calls == {"LeaseGrant": 1}
    busy.lease.renew_soon()
    wait_until(lambda: calls["LeaseKeepAlive"])
    runs.clear()
    wait_until(lambda: len(runs) > 20)
    assert calls == {"LeaseGrant": 1, "LeaseKeepAlive": 1}


class LookedForTooLate(threading.Event):
    """Set from elsewhere as soon as a wait has run out, before the waiting thread goes on."""

    def wait(self, timeout: float | None = None) -> bool:
        came = super().wait(timeout)
        self.set()
        return came


def test_a_look_asked_for_just_as_a_wait_runs_out_is_not_forgotten(busy: Session, calls: Counter[str]) -> None:
    """It is taken by the round after, not cleared with the one that had not seen it."""
    busy.lease._wake = LookedForTooLate()
    wait_until(lambda: calls["LeaseKeepAlive"])


def test_an_unanswered_renewal_is_repeated(
    proxy: Proxy, far_session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    """After the client's timeout, however long the lease; it does not wait for the next third of its TTL."""
    caplog.set_level("INFO", logger="lock.session.lease")
    lease = far_session.lease
    before = lease._deadline
    proxy.stall()
    lease.renew_soon()
    wait_until(lambda: "was not renewed" in caplog.text, timeout=10.0)  # gRPC finds a dead connection after 13 s
    proxy.resume()
    wait_until(lambda: lease._deadline > before)


def test_closing_wakes_the_thread_that_renews(client: Client, monkeypatch: Patch) -> None:
    """However long it would have slept."""
    monkeypatch.setattr(kept_lease, "_SLEEP_S", 60.0)
    with Session(client, ttl=600):
        assert {"lock-lease", "lock-janitor"} <= set(lock_threads())
    assert "lock-janitor" not in lock_threads()
    wait_until(lambda: "lock-lease" not in lock_threads())


# How a lease is lost


def test_a_machine_that_slept_past_its_lease_knows_soon(lasting: Session, name: str) -> None:
    """The clock has gone on while no timer ran: the loss is known soon, not at the next renewal; it stays lost."""
    hold = Mutex(lasting, name).acquire(timeout=WAIT_S)
    lasting.lease._deadline = 0.0
    assert hold.lost.wait(WAIT_S)
    assert_raises(SessionLost, hold.release, match="kept alive")
    lasting.lease.verify()
    assert lasting.remaining() == 0.0
    assert_raises(SessionLost, Mutex(lasting, name).try_acquire)


def test_a_holders_revoked_lease_is_known_before_its_next_renewal(client: Client, lasting: Session, name: str) -> None:
    """That the key is gone is a sign: the session looks at its lease at once, and not in minutes."""
    hold = Mutex(lasting, name).acquire(timeout=WAIT_S)
    client.revoke(lasting.lease_id)
    assert lasting.lost.wait(WAIT_S)
    assert_raises(SessionLost, hold.release, match="was revoked")


def test_a_revoked_lease_of_an_idle_session_is_known_at_its_next_renewal(client: Client) -> None:
    """Without a key to watch, a third of the TTL is the longest it can take; the local deadline would come later."""
    with Session(client, ttl=2) as session:
        client.revoke(session.lease_id)
        assert session.lost.wait(WAIT_S)
        assert_raises(SessionLost, session.ensure, match="was revoked")


@pytest.mark.parametrize("attempt", [Mutex.acquire, Mutex.try_acquire])
def test_a_call_that_first_hears_of_a_revoked_lease_says_so(
    client: Client, lasting: Session, name: str, attempt: Callable[[Mutex], object]
) -> None:
    """An acquire that comes before the next renewal gets SessionLost, and so does each call after it."""
    client.revoke(lasting.lease_id)
    assert_raises(SessionLost, attempt, Mutex(lasting, name))
    assert lasting.lost.is_set()


FAULTS: dict[str, Callable[[Proxy, Client], object]] = {
    "stall": lambda proxy, _: proxy.stall(),
    "refuse": lambda proxy, _: proxy.refuse(),
    "forget": lambda proxy, _: proxy.forget(),
    "no answers": lambda proxy, _: proxy.stall(ANSWERS),
    "an error that was not expected": lambda _, client: setattr(client, "keep_alive", out_of_threads),
}


def test_it_is_lost_at_the_deadline(etcd: Etcd, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever cuts etcd off: holds and waits are told when the TTL since the last renewal was sent is over.

    A release says so too, and deletes no key: what was written under the hold may have been written unlocked.
    """
    with ExitStack() as stack:
        running = []
        for fault in FAULTS:
            proxy = stack.enter_context(Proxy(etcd.endpoint))
            stack.callback(heal, proxy)
            session = Session(stack.enter_context(connect(proxy.endpoint, timeout=1.0)), ttl=2)
            stack.callback(session.close)
            mutex, lost_at = Mutex(session, f"{name}/{fault}"), list[float]()
            hold = mutex.acquire(timeout=WAIT_S)
            hold.on_lost(partial(lambda lost_at: lost_at.append(time.monotonic()), lost_at))
            running.append((fault, proxy, session, mutex, hold, in_thread(mutex.acquire), lost_at))
        deadlines = {}
        for fault, proxy, session, *_ in running:
            FAULTS[fault](proxy, session.client)
            deadlines[fault] = time.monotonic() + session.ttl  # it may have been renewed just now, but not after this
        for fault, proxy, session, mutex, hold, waiting, lost_at in running:
            assert hold.lost.wait(WAIT_S), fault
            wait_until(lambda: lost_at)  # noqa: B023
            assert lost_at[0] < deadlines[fault] + AT_ONCE_S, fault
            assert hold.remaining() == 0.0
            assert session.lost.is_set()
            assert isinstance(waiting.exception(WAIT_S), SessionLost)
            session.delete = lambda *_, **__: pytest.fail("the key goes with the lease")  # type: ignore[method-assign]
            for call in (hold.ensure, mutex.acquire, hold.release):
                assert_raises(SessionLost, call, match="kept alive")
            heal(proxy)
    assert 1 <= caplog.text.count("RuntimeError") < 20, "attempts must not become a rush"


def test_a_short_outage_is_survived(proxy: Proxy, far: Client, name: str) -> None:
    """etcd unavailable for less than the TTL costs nothing but time."""
    with Session(far, ttl=3) as session, Mutex(session, name).acquire(timeout=WAIT_S) as hold:
        proxy.refuse()
        session.lease.renew_soon()
        before = session.remaining()
        wait_until(lambda: session.remaining() < before - 0.5)
        proxy.start()
        wait_until(lambda: session.remaining() > before - 0.2)
        hold.ensure()


def test_a_lost_lease_is_given_back(
    proxy: Proxy, far: Client, client: Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A lease that is lost here but lives on in etcd is revoked as soon as etcd answers, not left to its TTL."""
    caplog.set_level("DEBUG", logger="lock.session.lease")
    with Session(far, ttl=60) as session:
        hold = Mutex(session, name).acquire(timeout=WAIT_S)
        proxy.refuse()
        session.lease.gone()
        session.lease.renew_soon()
        assert hold.lost.is_set()
        wait_until(lambda: "was not revoked" in caplog.text)
        assert keys(client, name) == [hold.key]
        proxy.start()
        await_keys(client, name, 0)
        wait_until(lambda: "lock-lease" not in lock_threads())


def test_a_renewal_that_is_answered_too_late_does_not_count(session: Session, monkeypatch: Patch) -> None:
    """A lease whose local deadline passed while the answer was out is lost, whatever the answer says."""
    lease = session.lease

    def answer_late(lease_id: int, **_: object) -> int:
        lease._deadline = now() - 1
        return lease.ttl

    monkeypatch.setattr(session.client, "keep_alive", answer_late)
    lease.verify()
    assert session.lost.is_set()
    assert session.remaining() == 0.0


@pytest.mark.parametrize("attempt", [Mutex.acquire, Mutex.try_acquire])
def test_a_turn_after_the_deadline_is_not_a_hold(
    client: Client, lasting: Session, name: str, monkeypatch: Patch, attempt: Callable[[Mutex], object]
) -> None:
    """The last look before a hold is handed out is at the lease: no body runs under one that is known to be over."""
    ask = lasting.client.ask

    async def answer_late(*args: Any, **options: Any) -> object:
        written = await ask(*args, **options)
        if isinstance(written, KeyValue):
            wait_until(lambda: lasting.queues.followed[f"{name}/"].length() == 1)
            lasting.lease._deadline = 0.0
        return written

    monkeypatch.setattr(lasting.client, "ask", answer_late)
    assert_raises(SessionLost, attempt, Mutex(lasting, name))
    await_keys(client, name, 0)


def test_unexpected_errors_end_nothing(counted: Client, calls: Counter[str], name: str, monkeypatch: Patch) -> None:
    """A machine that is out of threads for a moment costs a renewal or an audit, and the next one follows soon."""
    monkeypatch.setattr(wait_queue, "_AUDIT_S", 0.1)
    with Session(counted, ttl=60) as session, Mutex(session, name).acquire(timeout=WAIT_S) as hold:
        waiting, failed = queue_up(counted, Mutex(session, name)), set[str]()
        with monkeypatch.context() as patched:
            for call in ("get_prefix", "keep_alive"):
                patched.setattr(counted, call, in_turn(partial(failed.add, call), out_of_threads))
            session.lease.renew_soon()
            wait_until(lambda: len(failed) == 2)
        before = calls.copy()
        for call in ("Range", "LeaseKeepAlive"):
            wait_until(lambda: calls[call] > before[call])  # noqa: B023
        hold.ensure()
        session.cancel_waiters()
        assert_raises(LockCancelled, waiting.result, WAIT_S)


# Closing


def test_closing_frees_everything_at_once(client: Client, mutex: Mutex, theirs: Mutex, session: Session) -> None:
    """The lease is revoked, once: the next one has the lock; waiters are told; several threads may close, and again."""
    hold, own, next_one = mutex.acquire(timeout=WAIT_S), queue_up(client, mutex), queue_up(client, theirs)
    for closing in [in_thread(session.close) for _ in range(5)]:
        closing.result(WAIT_S)
    assert_raises(SessionLost, own.result, WAIT_S, match="closed")
    next_one.result(WAIT_S).release()
    assert hold.lost.is_set()
    assert client.time_to_live(session.lease_id).ttl == -1
    assert keys(client, mutex.name) == []


def test_closing_again_does_nothing(counted: Client, calls: Counter[str]) -> None:
    """close() is idempotent, also from several threads at once, and `with` may close what was closed."""
    with Session(counted) as session:
        for closing in [in_thread(session.close) for _ in range(5)]:
            closing.result(WAIT_S)
    assert calls["LeaseRevoke"] == 1


def test_closing_while_etcd_is_unavailable_ends(proxy: Proxy, far: Client, name: str) -> None:
    """It takes a few deadlines, not the lease's 600 s, which is left to expire."""
    session = Session(far, ttl=600)
    hold = Mutex(session, name).acquire(timeout=WAIT_S)
    proxy.stall()
    in_thread(session.close).result(10.0)  # gRPC would take 13 s
    assert hold.lost.is_set()
    proxy.resume()
    wait_until(lambda: not lock_threads())


def test_a_session_that_is_dropped_is_closed(client: Client, name: str) -> None:
    """With a warning; none of its threads keeps it alive, so its lease is not renewed any more."""
    session = Session(client, ttl=60)
    lease_id, drop = session.lease_id, [session]
    Mutex(session, name).acquire(timeout=WAIT_S).release()
    del session
    with pytest.warns(ResourceWarning, match="dropped without close"):
        drop.clear()
    wait_until(lambda: client.time_to_live(lease_id).ttl == -1)
    wait_until(lambda: not lock_threads())


def test_all_threads_share_one_lease(client: Client, etcdctl: Callable[..., str], name: str) -> None:
    """However many acquisitions: one lease, for hundreds a second would paralyse a cluster when they expire."""
    before = len(etcdctl("lease", "list").split("\n"))
    with Session(client) as session:
        for hold in [in_thread(Mutex(session, f"{name}/{number}").acquire) for number in range(20)]:
            hold.result(WAIT_S)
        assert len(etcdctl("lease", "list").split("\n")) == before + 1
        assert {kv.lease_id for kv in client.get_prefix(f"{name}/").keys} == {session.lease_id}


@pytest.mark.parametrize(("begin", "error"), [("lost", SessionLost), ("cancelled", LockCancelled)])
def test_a_wait_that_begins_while_the_session_ends(
    client: Client, theirs: Mutex, monkeypatch: Patch, begin: str, error: type[LockError]
) -> None:
    """Its queue came too late to be told with the others: it is told all the same, and nothing follows it."""
    with Session(client, ttl=60) as session, theirs.acquire(timeout=WAIT_S) as hold:
        add = session.queues.add

        def ended_before(prefix: str, ticket: Ticket) -> WaitQueue:
            session.lease.gone() if begin == "lost" else session.cancel_waiters()
            return add(prefix, ticket)

        monkeypatch.setattr(session.queues, "add", ended_before)
        assert_raises(error, Mutex(session, theirs.name).acquire, timeout=WAIT_S)
        wait_until(lambda: keys(client, theirs.name) == [hold.key])
        if begin == "lost":
            wait_until(lambda: lock_threads().count(f"lock-queue {theirs.name}/") == 1)  # the holder's


# Leases that are orphaned and taken over


def test_an_orphaned_lease_keeps_what_it_holds(client: Client, name: str) -> None:
    """orphan ends the session here, with no thread left, but leaves lease and keys in etcd."""
    session = Session(client, ttl=5)
    hold = Mutex(session, name).acquire(timeout=WAIT_S)
    session.orphan()
    assert session.lost.is_set()
    assert_raises(SessionLost, hold.ensure, match="orphaned")
    assert_raises(SessionLost, Mutex(session, name).acquire, timeout=WAIT_S)
    assert keys(client, name) == [hold.key]
    assert client.time_to_live(session.lease_id).ttl > 0
    assert f"lock-queue {name}/" not in lock_threads()
    client.revoke(session.lease_id)
    assert_raises(SessionLost, hold.release)


def test_a_lease_that_was_taken_over_lives_on(counted: Client, calls: Counter[str], client: Client, name: str) -> None:
    """A new session renews it with the TTL that was granted, shares no key with the one before, and frees its keys."""
    before = Session(client, ttl=2)
    held = Mutex(before, name).acquire(timeout=WAIT_S)
    before.orphan()
    with Session(counted, lease_id=before.lease_id) as after:
        assert (after.lease_id, after.ttl) == (before.lease_id, before.ttl)
        wait_until(lambda: calls["LeaseKeepAlive"] >= 2)  # once to take it over, then by itself
        assert_raises(LockTimeout, Mutex(after, name).acquire, timeout=0.2)
        wait_until(lambda: keys(client, name) == [held.key])
        with Mutex(after, f"{name}-other").acquire(timeout=WAIT_S) as hold:
            hold.ensure()
    assert keys(client, name) == []
    assert_raises(SessionLost, held.release)


# Processes that end, fork or freeze


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_program_that_ends_frees_its_locks(etcd: Etcd, client: Client, name: str, interrupted: bool) -> None:
    """Neither released nor closed, or by Ctrl-C in the critical section and in waits: the lease is revoked at exit."""
    code = "hold = mutex.acquire(timeout=5); say(session.lease_id)\n"
    if interrupted:
        code += "threading.Thread(target=mutex.acquire, daemon=True).start()\nwith hold: mutex.acquire(timeout=60)\n"
    with Script(etcd.endpoint, name, code, ttl=60) as script:
        lease = int(script.says())
        if interrupted:
            await_keys(client, name, 3)
            script.process.send_signal(signal.SIGINT)
        exit_code, errors = script.ends()
        assert exit_code == (-signal.SIGINT if interrupted else 0), errors
        assert ("KeyboardInterrupt" in errors) is interrupted
        assert client.time_to_live(lease).ttl == -1
        assert keys(client, name) == []


def test_a_forked_child_has_no_part_in_the_parents_lock(etcd: Etcd, client: Client, name: str) -> None:
    """In the child everything raises ForkedError; its end neither hangs nor releases, and the parent goes on.

    A child that leaves its parent's `with` by itself ends with what it has raised.
    """
    code = (
        "hold = mutex.acquire(timeout=5)\n"
        "both = MultiLock(session, ['fork/a', 'fork/b']); holds = both.acquire()\n"
        "cohort = CohortMutex(session, 'fork/c'); turn = cohort.acquire()\n"
        "nested = ReentrantMutex(session, 'fork/d'); inner = nested.acquire(); nested.acquire()\n"
        "observation = Election(session, 'fork/e').observe()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    calls = [client.status, lambda: Session(client), session.ensure, session.remaining, session.close,\n"
        "             session.cancel_waiters, observation.close, lambda: next(observation), hold.contended]\n"
        "    for each in (mutex, both, cohort, nested): calls += [each.acquire, each.cancel, each.contenders]\n"
        "    for each in (hold, holds, turn, inner): calls += [each.ensure, each.release, each.remaining]\n"
        "    for each in (session, hold, holds, turn, inner): calls.append(lambda each=each: each.on_lost(print))\n"
        "    for each in (mutex, both, nested): calls.append(each.try_acquire)\n"
        "    for each in (hold, holds, inner): calls.append(each.is_owner)\n"
        "    refusals = 0\n"
        "    for call in calls:\n"
        "        try: call()\n"
        "        except ForkedError: refusals += 1\n"
        "    sys.exit(0 if refusals == len(calls) else refusals + 1)\n"
        "say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "with session:\n"
        "    child = os.fork()\n"
        "    if child == 0: sys.exit(7)\n"
        "    say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "    say(hold.key)\n"
        "    hear()\n"
        "    hold.release()\n"
    )
    with Script(etcd.endpoint, name, code) as script:
        assert (script.says(), script.says()) == ("0", "7")
        assert keys(client, name) == [script.says()]
        script.tell()
        exit_code, errors = script.ends()
        assert exit_code == 0, errors
        assert "ForkedError" not in errors
        assert keys(client, name) == []


def test_a_frozen_waiter_gets_no_hold(etcd: Etcd, client: Client, theirs: Mutex, name: str) -> None:
    """Frozen while it waits, and thawed when its turn has come and gone: it gets SessionLost, never a hold."""
    code = (
        "say('waiting')\n"
        "try: hold = mutex.acquire(); say('held'); session.lost.wait(5)\n"
        "except SessionLost: say('SessionLost')\n"
    )
    hold = theirs.acquire(timeout=WAIT_S)
    with Script(etcd.endpoint, name, code, ttl=1) as script:
        assert script.says() == "waiting"
        await_keys(client, name, 2)
        freeze(script.process)
        hold.release()
        await_keys(client, name, 0)
        script.process.send_signal(signal.SIGCONT)
        assert script.says() == "SessionLost"
