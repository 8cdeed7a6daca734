"""The session: one lease per process, what becomes of it at the end, and what comes after."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import pytest

from loadtest.stack.proxy import ANSWERS, Proxy
from loadtest.stack.servers import Etcd
from lock import Client, MultiLock, Mutex, Session, SessionLost, connect
from lock.runtime.clock import now
from lock.session import session as session_module
from tests.support.lock import AT_ONCE_S, WAIT_S, Script, await_keys, keys, lock_threads, queue_up
from tests.support.waiting import assert_goes_on, assert_raises, in_thread, out_of_threads, wait_until

# Closing


def test_closing_frees_everything_at_once(
    counted: Client, calls: Counter[str], client: Client, theirs: Mutex, name: str
) -> None:
    """However often it is closed, the lease is revoked once; the next one holds; the client keeps nothing of it."""
    with Session(counted) as session:
        mutex = Mutex(session, name)
        hold, next_one = mutex.acquire(timeout=WAIT_S), queue_up(client, theirs)
        for closing in [in_thread(session.close) for _ in range(5)]:
            closing.result(WAIT_S)
    assert calls["LeaseRevoke"] == 1
    assert counted.close_listeners == counted.cluster_listeners == set()
    next_one.result(WAIT_S).release()
    assert hold.lost.is_set()


def test_a_session_that_is_dropped_lives_on(client: Client, name: str) -> None:
    """The garbage collector frees nothing: what it holds stays held past its TTL (pitfall 20), until it is closed."""
    drop = [Session(client, ttl=2)]
    lease_id, hold = drop[0].lease_id, Mutex(drop[0], name).acquire(timeout=WAIT_S)
    drop.clear()
    assert not hold.lost.wait(2.5)
    assert client.time_to_live(lease_id).ttl > 0
    hold.ensure()
    hold._session.close()


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
    """There everything raises ForkedError, and its end, with its own exit code, neither hangs nor releases."""
    code = """
hold = mutex.acquire(timeout=5)
both = MultiLock(session, ['fork/a', 'fork/b']); holds = both.acquire()
cohort = CohortMutex(session, 'fork/c'); turn = cohort.acquire()
nested = ReentrantMutex(session, 'fork/d'); inner = nested.acquire(); nested.acquire()
observation = Election(session, 'fork/e').observe()
calls = [client.status, lambda: Session(client), session.ensure, session.remaining, session.close,
         session.cancel_waiters, observation.close, lambda: next(observation), lambda: hold.on_contended(print),
         client.check_process, lambda: client.grant(5), lambda: client.get_prefix('a/'),
         lambda: client.create("a/b", b"", 0)]
for each in (mutex, both, cohort, nested): calls += [each.acquire, each.cancel, each.contenders]
for each in (hold, holds, turn, inner): calls += [each.ensure, each.release, each.remaining, each.__enter__]
for each in (session, hold, holds, turn, inner): calls.append(lambda each=each: each.on_lost(print))
for each in (mutex, both, nested): calls.append(each.try_acquire)
for each in (hold, holds, inner): calls.append(each.is_owner)
for each in (hold, turn): calls.append(lambda each=each: each.lost)  # nothing would ever set it
calls.append(nested.current)
with session:
    child = os.fork()
    if child == 0:
        refusals = 0
        for call in calls:
            try: call()
            except ForkedError as error: refusals += f'belongs to process {os.getppid()}' in str(error)
        sys.exit(7 if refusals == len(calls) else 8)
    say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    say(hold.key)
    hear()
    hold.release()
"""
    with Script(etcd.endpoint, name, code) as script:
        assert script.says() == "7"
        assert keys(client, name) == [script.says()]
        script.tell()
        exit_code, errors = script.ends()
        assert exit_code == 0, errors
        assert "ForkedError" not in errors
        assert keys(client, name) == []


# A loss: all know of it at once, whatever the callbacks of the others do


def test_slow_callbacks_delay_no_other_loss(client: Client, name: str) -> None:
    """The lease is gone: all holds and waits of all names know before the first callback has returned."""
    gate = threading.Event()
    with Session(client, ttl=60) as session, ExitStack() as opening:
        opening.callback(gate.set)
        holds = [Mutex(session, f"{name}/{number}").acquire(timeout=WAIT_S) for number in range(3)]
        several = MultiLock(session, [f"{name}/a", f"{name}/b"]).acquire(timeout=WAIT_S)
        waiting = queue_up(client, Mutex(session, f"{name}/2"))
        for on_lost in (*(hold.on_lost for hold in holds), several.on_lost):
            on_lost(partial(gate.wait, 2 * WAIT_S))
        in_thread(client.revoke, session.lease_id).result(WAIT_S)
        assert session.lost.wait(WAIT_S)
        assert all(held.lost.is_set() for held in holds)
        assert several.lost.is_set()
        assert_raises(SessionLost, waiting.result, WAIT_S)


def test_callbacks_of_holds_are_called_before_those_of_the_session(client: Client, name: str) -> None:
    """In order, whatever they raise: SystemExit ends one of them, too. What is no function is not taken."""
    told: list[str] = []
    with Session(client, ttl=60) as session:
        hold = Mutex(session, name).acquire(timeout=WAIT_S)
        for on_lost in (session.on_lost, hold.on_lost):
            assert_raises(TypeError, on_lost, None, match="function")
            on_lost(sys.exit)
        session.on_lost(lambda: told.append(f"session, with its hold lost: {hold.lost.is_set()}"))
        session.on_lost(session.close)
        hold.on_lost(lambda: told.append("hold"))
        client.revoke(session.lease_id)
        wait_until(lambda: told == ["hold", "session, with its hold lost: True"])
    session.on_lost(lambda: told.append("late"))
    assert told[2:] == ["late"]


# The lease: kept alive, and known to be lost in time


def heal(proxy: Proxy) -> None:
    """Let the test end without waiting for deadlines."""
    proxy.resume()
    proxy.reset()
    proxy.start()


def test_the_ttl_is_what_the_server_granted(client: Client) -> None:
    """etcd makes two seconds of one; the local deadline uses them, and etcd never has less than we believe."""
    before = now()
    with Session(client, ttl=1) as session:
        assert session.ttl == client.time_to_live(session.lease_id).granted_ttl == 2
        assert session._engine.core.deadline >= before + 2.0
        assert session.remaining() <= 2.0


def test_the_deadline_counts_from_when_a_renewal_was_sent(proxy: Proxy, far: Client) -> None:
    """An answer that was long under way leaves less, of the grant as well: etcd's clock started before it."""
    far.status()
    proxy.stall(ANSWERS)
    opening = in_thread(Session, far, ttl=30)
    assert_goes_on(opening, 0.6)
    proxy.resume()
    with opening.result(WAIT_S) as session:
        assert session.remaining() <= 30 - 0.6
        wait_until(lambda: session._engine.lease._due)
        assert session._engine.lease._due - now() <= 30 / 3 - 0.6
        proxy.stall(ANSWERS)
        renewal = in_thread(session._engine.lease.renew)
        assert_goes_on(renewal, 0.6)
        proxy.resume()
        renewal.result(WAIT_S)
        assert session._engine.lease._due - now() <= 30 / 3 - 0.6
        assert session.remaining() <= 30 - 0.6


def test_an_unanswered_renewal_is_resent(proxy: Proxy, far_session: Session, caplog: pytest.LogCaptureFixture) -> None:
    """After the client's timeout, however long the lease; it does not wait for the next third of its TTL."""
    caplog.set_level("INFO", logger="lock.session.lease_thread")
    core = far_session._engine.core
    before = core.deadline
    proxy.stall()
    far_session._engine.lease.wake()
    wait_until(lambda: "was not renewed" in caplog.text, timeout=10.0)  # gRPC finds a dead connection after 13 s
    proxy.resume()
    wait_until(lambda: core.deadline > before)


# How a lease is lost


def test_a_machine_that_slept_past_its_lease_knows_soon(client: Client, name: str) -> None:
    """The clock has gone on while no timer ran: the loss is known soon, not at the next renewal; it stays lost."""
    with Session(client, ttl=600) as session:
        hold = Mutex(session, name).acquire(timeout=WAIT_S)
        session._engine.core.deadline = 0.0
        assert hold.lost.wait(WAIT_S)
        assert_raises(SessionLost, hold.release, match="kept alive")
        session._engine.lease.renew()
        assert session.remaining() == 0.0
        assert_raises(SessionLost, Mutex(session, name).try_acquire)


FAULTS: dict[str, Callable[[Proxy, Client], object]] = {
    "stall": lambda proxy, _: proxy.stall(),
    "refuse": lambda proxy, _: proxy.refuse(),
    "an error that was not expected": lambda _, client: setattr(client, "keep_alive", out_of_threads),
}


@pytest.mark.flaky(reruns=1, reason="a loss is told at the lease's deadline")
def test_it_is_lost_at_the_deadline(etcd: Etcd, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever cuts etcd off: holds and waits know when the TTL since the last renewal is over; no release deletes."""
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
            assert session.lost.wait(WAIT_S)
            assert session not in session_module._open  # though nobody has closed it
            assert isinstance(waiting.exception(WAIT_S), SessionLost)
            for call in (hold.ensure, mutex.acquire, hold.release):
                assert_raises(SessionLost, call, match="kept alive")
            heal(proxy)
    assert 1 <= caplog.text.count("RuntimeError") < 20, "attempts must not become a rush"


def test_a_lost_lease_is_given_back(
    proxy: Proxy, far: Client, client: Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A lease that is lost here but lives on in etcd is revoked as soon as etcd answers, not left to its TTL."""
    caplog.set_level("DEBUG", logger="lock.session.lease_thread")
    with Session(far, ttl=60) as session:
        hold = Mutex(session, name).acquire(timeout=WAIT_S)
        proxy.refuse()
        session._engine.apply(lambda now: session._engine.core.lose("is lost by a test"))
        assert hold.lost.is_set()
        wait_until(lambda: "was not revoked" in caplog.text)
        assert keys(client, name) == [hold.key]
        proxy.start()
        await_keys(client, name, 0)
        wait_until(lambda: "lock-lease" not in lock_threads())
