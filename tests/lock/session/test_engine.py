"""A session's engine on a real etcd behind a bad network: nothing is left, nobody waits for ever, and what it costs."""

from __future__ import annotations

import asyncio
import gc
import shutil
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from loadtest.stack.proxy import REQUESTS, Proxy
from loadtest.stack.servers import Etcd
from lock import (
    Client,
    CohortMutex,
    Election,
    EtcdUnavailable,
    Hold,
    LockCancelled,
    LockError,
    LockLost,
    LockTimeout,
    MultiLock,
    Mutex,
    Session,
    SessionLost,
    Turn,
    aio,
    connect,
)
from lock.core.acquisition import Acquisition
from lock.core.queue import Queue
from lock.names import LONGEST
from lock.recipes.cohort import YieldingCohortMutex
from lock.session import session as session_module
from tests.support.lock import ROOT, WAIT_S, await_followed, await_keys, in_a_loop, keys, put, queue_up
from tests.support.waiting import Patch, assert_raises, in_thread, in_turn, out_of_threads, wait_until


@pytest.fixture
def hold(theirs: Mutex) -> Hold:
    """The lock, held by another process."""
    return theirs.acquire(timeout=WAIT_S)


def wait_behind(hold: Hold, client: Client, session: Session) -> Future[Hold]:
    """A thread that waits behind `hold`, and has seen it at the head."""
    waiting = queue_up(client, Mutex(session, hold.name))
    await_followed(session, hold.name)
    return waiting


Disturbance = tuple[Callable[[Proxy], object], bool, Callable[[Proxy], object]]
DISTURBANCES: dict[str, Disturbance] = {
    "a broken connection": (lambda proxy: proxy.reset(), False, lambda proxy: None),
    "a cut, so that only a list tells": (lambda proxy: proxy.refuse(), False, lambda proxy: proxy.start()),
    "a cut and a compaction": (lambda proxy: proxy.refuse(), True, lambda proxy: proxy.start()),
    "a pause": (lambda proxy: proxy.stall(), False, lambda proxy: proxy.resume()),
    "a compaction": (lambda proxy: None, True, lambda proxy: None),
}


@pytest.mark.parametrize("disturbance", DISTURBANCES.values(), ids=DISTURBANCES)
def test_a_disturbed_watch_costs_no_place(
    hold: Hold, client: Client, far_session: Session, proxy: Proxy, etcdctl: Callable[..., str],
    disturbance: Disturbance, monkeypatch: Patch,
) -> None:  # fmt: skip
    """The queue is watched and listed again, and the turn comes with the same key, without any audit."""
    monkeypatch.setattr(Queue, "audit_s", 600.0)
    before, compacts, after = disturbance
    waiting = wait_behind(hold, client, far_session)
    key = keys(client, hold.name)[1]
    before(proxy)
    hold.release()
    if compacts:
        etcdctl("compact", str(client.get_prefix(f"{hold.name}/").revision))
    after(proxy)
    with waiting.result(WAIT_S) as mine:
        assert mine.key == key
        assert mine.token < client.get_prefix(f"{hold.name}/").revision


def test_a_dead_watch_is_found_out(hold: Hold, client: Client, both: Client, proxy: Proxy, monkeypatch: Patch) -> None:
    """The network forgets the connection without a word: an audit, at another endpoint, finds the difference."""
    monkeypatch.setattr(Queue, "audit_s", 0.2)
    with Session(both, ttl=600) as session:
        waiting = wait_behind(hold, client, session)
        proxy.blackhole()
        hold.release()
        waiting.result(10.0).release()  # gRPC's pings would take 13 s


def test_a_restored_backup_leaves_no_hold_that_etcd_has_forgotten(fresh_etcd: Etcd) -> None:
    """The lease is in the backup, the keys are not: holds are lost, and an observation tells the leader of today."""
    with connect(fresh_etcd.endpoint) as client, Session(client, ttl=600) as early, Session(client, ttl=600) as late:
        kept, office = Mutex(early, "kept").acquire(timeout=WAIT_S), Election(late, "office")
        data, backup = fresh_etcd.directory / fresh_etcd.name, fresh_etcd.directory / "backup"
        fresh_etcd.stop()
        shutil.copytree(data, backup)
        fresh_etcd.start()
        for _ in range(10):
            Mutex(early, "forgotten").acquire(timeout=WAIT_S).release()
        forgotten = Mutex(early, "forgotten").acquire(timeout=WAIT_S)
        waiting = wait_behind(forgotten, client, late)
        with office.observe() as observation:
            leadership = office.campaign("last", timeout=WAIT_S)
            assert next(observation).value == "last"
            fresh_etcd.stop()
            shutil.rmtree(data)
            backup.rename(data)
            fresh_etcd.start()
            assert forgotten.lost.wait(WAIT_S)
            assert_raises(LockLost, waiting.result, WAIT_S)
            with Election(early, "office").campaign("new", timeout=WAIT_S) as elected:
                assert in_thread(next, observation).result(WAIT_S).value == "new"
                assert elected.token < leadership.token
        assert leadership.lost.wait(WAIT_S)
        for lost in (leadership, forgotten):
            with Mutex(early, "forgotten").acquire(timeout=WAIT_S) as hold:
                assert hold.token < forgotten.token
                hold.ensure()
            kept.ensure()
            assert_raises(LockLost, lost.release)
        kept.release()


def test_a_late_write_is_deleted(client: Client, far_session: Session, proxy: Proxy, name: str) -> None:
    """The network delivers the request when its call is over: the key is deleted when it appears, and again."""
    proxy.stall(REQUESTS)
    assert_raises(EtcdUnavailable, Mutex(far_session, name).acquire, timeout=0.3)
    assert not keys(client, name)
    key = f"{name}/{far_session.lease_id:x}-1"
    wait_until(lambda: proxy.deliver(REQUESTS, through=key.encode()))
    wait_until(lambda: keys(client, name))
    proxy.reset()  # what was sent after it does not arrive
    proxy.resume()
    await_keys(client, name, 0)
    for _ in range(2):
        put(client, key, lease_id=far_session.lease_id)
        await_keys(client, name, 0)
    with Mutex(far_session, name).acquire(timeout=WAIT_S) as hold:
        assert hold.key != key  # a name in doubt is not used again
    assert not far_session.lost.is_set()


@pytest.mark.parametrize("is_task", [False, True])
def test_a_wait_looks_again_now_and_then(hold: Hold, session: Session, monkeypatch: Patch, is_task: bool) -> None:
    """Also one without an end: while a machine is suspended, the clock of waits may stand still."""
    for driver in ("lock.session.engine", "lock.aio.driver"):
        monkeypatch.setattr(f"{driver}.SLEEP_S", 0.01)
    looks, look = list[Acquisition](), Acquisition.next

    def counted(acquisition: Acquisition, now: float) -> object:
        looks.append(acquisition)
        return look(acquisition, now)

    monkeypatch.setattr(Acquisition, "next", counted)

    async def wait() -> None:
        async with aio.Mutex(session, hold.name):
            pass

    waiting = in_thread(lambda: asyncio.run(wait()) if is_task else Mutex(session, hold.name).acquire().release())
    wait_until(lambda: len(looks) > 100, timeout=WAIT_S)
    hold.release()
    waiting.result(WAIT_S)


def test_a_group_fits_into_a_request(client: Client, session: Session, name: str) -> None:
    """Waits for a name as long as names can be go in transactions of a hundred, none of which is refused."""
    mutex = Mutex(session, name.ljust(LONGEST, "x"))
    with mutex.acquire(timeout=WAIT_S) as hold, ThreadPoolExecutor(150) as pool:
        waits = [pool.submit(mutex.acquire) for _ in range(150)]
        await_keys(client, mutex.name, 151)
        mutex.cancel()
        for wait in waits:
            wait.exception(WAIT_S)
        wait_until(lambda: keys(client, mutex.name) == [hold.key])


def test_an_error_that_was_not_expected_ends_no_thread(
    client: Client, session: Session, hold: Hold, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine that is out of threads for a moment: the error is logged, and what was to be done is done later."""
    failed = threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(client.watches, "add", in_turn(failed.set, out_of_threads))
        waiting = queue_up(client, Mutex(session, hold.name))
        assert failed.wait(WAIT_S)
    hold.release()
    waiting.result(WAIT_S).release()
    assert "lock.session.worker" in caplog.text


# Calls at moments that nobody plans for, and what documents promise of time and ends where something stands still


def test_a_signal_handler_ends_waits(client: Client, session: Session, theirs: Mutex) -> None:
    """It may run in a thread that has the session's lock, so it takes none; the session lives on."""
    mutex = Mutex(session, theirs.name)

    def interrupted(call: Callable[[], None]) -> None:
        with session._engine.lock:
            call()

    with theirs.acquire(timeout=WAIT_S):
        for call in (mutex.cancel, session.cancel_waiters):
            waiting = in_thread(mutex.acquire)
            await_keys(client, theirs.name, 2)
            in_thread(interrupted, call).result(WAIT_S)
            assert_raises(LockCancelled, waiting.result, WAIT_S)
            await_keys(client, theirs.name, 1)
    in_thread(session.ensure).result(WAIT_S)


def test_an_error_inside_a_call_leaves_no_ticket(
    client: Client, session: Session, name: str, monkeypatch: Patch
) -> None:
    """A machine out of memory in the middle of a write: the caller is told, and the key that may come is deleted."""
    with monkeypatch.context() as patched:
        patched.setattr(client, "call_here", in_turn(lambda: 1 / 0))
        assert_raises(ZeroDivisionError, Mutex(session, name).acquire)
    wait_until(lambda: not session._engine.core.tickets)
    Mutex(session, name).acquire(timeout=WAIT_S).release()


def test_a_wait_hears_at_once_that_its_client_was_closed(
    etcd: Etcd, client: Client, theirs: Mutex, caplog: pytest.LogCaptureFixture
) -> None:
    """Not at the end of the lease; a later one is told, too, the session can be closed, and no failure is logged."""
    own = connect(etcd.endpoint, timeout=1)
    with Session(own, ttl=600) as session, theirs.acquire(timeout=WAIT_S) as hold:
        waiting = queue_up(client, Mutex(session, hold.name), timeout=None)
        own.close()
        assert_raises(EtcdUnavailable, waiting.result, WAIT_S, match="client was closed")
        assert_raises(EtcdUnavailable, Mutex(session, hold.name).acquire, match="client was closed")
        assert isinstance(own.send(own.requests.get_prefix("a/")).exception(WAIT_S), EtcdUnavailable)
        assert "ERROR" not in caplog.text
    client.revoke(session.lease_id)


@pytest.mark.parametrize(
    "first",
    [
        lambda mutex, turn: turn.release(),
        lambda mutex, turn: turn.release(wait=False),
        lambda mutex, turn: turn.on_contended(threading.Event().set),
        lambda mutex, turn: turn.is_owner(),
        lambda mutex, turn: mutex.acquire(timeout=WAIT_S),
        lambda mutex, turn: mutex.try_acquire(),
        lambda mutex, turn: mutex.session.ensure(),
        lambda mutex, turn: mutex.session.close(),
    ],
)
def test_whoever_hears_first_that_the_session_is_lost_tells_all(
    client: Client, name: str, first: Callable[[CohortMutex, Turn], object]
) -> None:
    """The end of a turn, say: those who wait for one hear of it, and the call itself does not wait for them."""
    with Session(client) as session:
        mutex, engine = YieldingCohortMutex(session, name), session._engine
        turn = mutex.acquire(timeout=WAIT_S)
        waiting = [in_thread(mutex.acquire) for _ in range(2)]
        wait_until(lambda: len(mutex._cohort.waits) == len(waiting))
        engine._notes.append(lambda now: engine.core.lose("was lost"))
        error = in_thread(first, mutex, turn).exception(WAIT_S)
        assert error is None or isinstance(error, LockError)
        for each in waiting:
            assert_raises(SessionLost, each.result, WAIT_S)
        assert session.lost.is_set()


def test_sessions_end_together(proxy: Proxy, monkeypatch: Patch) -> None:
    """At exit, where etcd is silent, they take one timeout of their client, not one each."""
    with connect(proxy.endpoint, timeout=1.0) as client:
        sessions = [Session(client, ttl=2) for _ in range(15)]
        monkeypatch.setattr(session_module, "_open", set(sessions))
        proxy.stall()
        began = time.monotonic()
        session_module._close_all()
        assert time.monotonic() - began < 10.0  # one after the other it would be fifteen
        assert all(session.lost.is_set() for session in sessions)


def test_a_lease_that_is_not_renewed_is_lost_whatever_stands_still(
    client: Client, name: str, monkeypatch: Patch
) -> None:
    """The thread that watches the deadline calls no etcd: calls that never end keep it from nothing."""
    over = threading.Event()
    monkeypatch.setattr(client, "keep_alive", lambda *_, **__: over.wait(WAIT_S))
    session, told = Session(client, ttl=2), threading.Event()
    session.on_lost(told.set)
    monkeypatch.setattr(session._engine, "poll", lambda _: over.wait(WAIT_S))  # the worker's
    session._engine.worker.wake()
    assert told.wait(session.ttl + 1.0)
    over.set()
    session.close()


def test_a_closed_loop_is_let_go(client: Client, session: Session, theirs: Mutex) -> None:
    """Also after a wait that was contended."""

    async def wait() -> weakref.ref[asyncio.AbstractEventLoop]:
        with pytest.raises(LockTimeout):
            await aio.Mutex(session, theirs.name).acquire(timeout=0.01)
        await aio.Mutex(session, theirs.name).locked()
        return weakref.ref(asyncio.get_running_loop())

    with theirs.acquire(timeout=WAIT_S):
        loops = [asyncio.run(wait()) for _ in range(4)]
    wait_until(lambda: gc.collect() is not None and not any(loop() for loop in loops))


def test_several_names_have_one_deadline(proxy: Proxy, name: str) -> None:
    """That of the call: they do not begin a new one each."""
    with connect(proxy.endpoint, timeout=1.0) as far, Session(far, ttl=600) as session:
        several = MultiLock(session, [f"{name}/{number}" for number in range(16)])
        Mutex(session, f"{name}/15").acquire(timeout=WAIT_S)
        proxy.delay_s, began = 0.6, time.monotonic()
        assert_raises((EtcdUnavailable, LockTimeout), several.acquire, timeout=1)
        assert time.monotonic() - began < 8.0  # sixteen round trips would be nearly ten
        proxy.delay_s = 0.0


@in_a_loop
async def test_tasks_in_line_have_one_deadline(client: Client, far_session: Session, proxy: Proxy, name: str) -> None:
    """That of their call, however many stand before them. One that is cancelled in line has never asked."""
    tickets = far_session._engine.core.tickets
    proxy.stall()
    began = time.monotonic()
    waits = [aio.Mutex(far_session, f"{name}/{number}").acquire(timeout=0.5) for number in range(500)]
    cancelled = [asyncio.create_task(aio.Mutex(far_session, name).acquire().__aenter__()) for _ in range(20)]
    waiting = asyncio.gather(*waits, return_exceptions=True)
    while len(tickets) < 520 and not waiting.done():
        await asyncio.sleep(0)
    for task in cancelled:
        task.cancel()
    assert {type(each) for each in await waiting} == {EtcdUnavailable}
    assert time.monotonic() - began < WAIT_S  # one after the other they would take minutes
    proxy.resume()
    await asyncio.to_thread(wait_until, lambda: not tickets)
    await asyncio.to_thread(await_keys, client, name, 0)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_of_multiprocessing_closes_its_sessions(
    etcd: Etcd, client: Client, name: str, method: str, tmp_path: Path
) -> None:
    """It ends without `atexit`; what it has left locked is free at once."""
    (tmp_path / "program.py").write_text(f"""
import multiprocessing, sys
def work():
    from lock import Mutex, Session, connect
    Mutex(Session(connect({etcd.endpoint!r}), ttl=60), {name!r}).acquire(timeout=5)
if __name__ == "__main__":
    child = multiprocessing.get_context({method!r}).Process(target=work)
    child.start()
    child.join()
    sys.exit(child.exitcode)
""")
    command, env = [sys.executable, str(tmp_path / "program.py")], {"PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT, env=env, check=True, timeout=WAIT_S)
    assert keys(client, name) == []
