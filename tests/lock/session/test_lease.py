"""The lease of a session: kept alive, and known to be lost in time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import chain, repeat

import pytest

from loadtest.stack.proxy import ANSWERS, Proxy
from loadtest.stack.servers import Etcd
from lock import Client, Mutex, Session, SessionLost, connect
from lock.runtime.clock import now
from lock.session import lease_thread
from lock.session import session as session_module
from tests.support.lock import AT_ONCE_S, WAIT_S, await_keys, keys, lock_threads
from tests.support.waiting import Patch, assert_goes_on, assert_raises, in_thread, out_of_threads, wait_until


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
        proxy.stall(ANSWERS)
        renewal = in_thread(session._engine.lease.renew)
        assert_goes_on(renewal, 0.6)
        proxy.resume()
        renewal.result(WAIT_S)
        assert session._engine.lease._due - now() <= 30 / 3 - 0.6
        assert session.remaining() <= 30 - 0.6


def test_a_slow_grant_leaves_time_to_renew(counted: Client, calls: Counter[str], monkeypatch: Patch) -> None:
    """The first renewal is due a third of the TTL after the grant was sent, however long its answer took."""
    delays = chain([0.0], repeat(550.0))
    monkeypatch.setattr(lease_thread, "now", lambda: now() + next(delays))
    with Session(counted, ttl=600) as session:
        wait_until(lambda: calls["LeaseKeepAlive"])
        session.ensure()


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


def test_a_machine_that_slept_past_its_lease_knows_soon(lasting: Session, name: str) -> None:
    """The clock has gone on while no timer ran: the loss is known soon, not at the next renewal; it stays lost."""
    hold = Mutex(lasting, name).acquire(timeout=WAIT_S)
    lasting._engine.core.deadline = 0.0
    assert hold.lost.wait(WAIT_S)
    assert_raises(SessionLost, hold.release, match="kept alive")
    lasting._engine.lease.renew()
    assert lasting.remaining() == 0.0
    assert_raises(SessionLost, Mutex(lasting, name).try_acquire)


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
