"""What documents promise of time, ends and losses, where something stands still."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

from loadtest.stack.proxy import Proxy
from loadtest.stack.servers import Etcd
from lock import Client, EtcdUnavailable, LockTimeout, MultiLock, Mutex, ReadWriteLock, Semaphore, Session, aio, connect
from lock.session import session as session_module
from tests.support.lock import ROOT, WAIT_S, in_a_loop, keys
from tests.support.waiting import Patch, assert_raises, wait_until


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


def test_what_was_released_is_not_lost(client: Client, name: str) -> None:
    """Though its session is closed before etcd has deleted the key."""
    told: list[str] = []
    for number in range(40):
        with Session(client) as session:
            hold = Mutex(session, f"{name}/{number}").acquire(timeout=WAIT_S)
            hold.on_lost(lambda: told.append("lost"))
            hold.release(wait=False)
    assert told == []


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


@pytest.mark.flaky(reruns=1, reason="one deadline of a second ends within three")
def test_several_names_have_one_deadline(proxy: Proxy, name: str) -> None:
    """That of the call: they do not begin a new one each."""
    with connect(proxy.endpoint, timeout=1.0) as far, Session(far, ttl=600) as session:
        several = MultiLock(session, [f"{name}/{number}" for number in range(8)])
        Mutex(session, f"{name}/7").acquire(timeout=WAIT_S)
        proxy.delay_s, began = 0.6, time.monotonic()
        assert_raises((EtcdUnavailable, LockTimeout), several.acquire, timeout=1)
        assert time.monotonic() - began < 3.0
        proxy.delay_s = 0.0


@pytest.mark.flaky(reruns=1, reason="one deadline for 500 tasks")
@in_a_loop
async def test_tasks_in_line_have_one_deadline(far_session: Session, proxy: Proxy, name: str) -> None:
    """That of their call, however many stand before them."""
    proxy.stall()
    began = time.monotonic()
    waits = [aio.Mutex(far_session, f"{name}/{number}").acquire(timeout=0.5) for number in range(500)]
    ended = await asyncio.gather(*waits, return_exceptions=True)
    assert time.monotonic() - began < 4.0
    assert {type(each) for each in ended} == {EtcdUnavailable}
    proxy.resume()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_of_multiprocessing_closes_its_sessions(
    etcd: Etcd, client: Client, name: str, method: str, tmp_path: Path
) -> None:
    """It ends without `atexit`; what it has left locked is free at once."""
    program = f"""
import multiprocessing, sys
def work():
    from lock import Mutex, Session, connect
    Mutex(Session(connect({etcd.endpoint!r}), ttl=60), {name!r}).acquire(timeout=5)
if __name__ == "__main__":
    child = multiprocessing.get_context({method!r}).Process(target=work)
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""
    (tmp_path / "program.py").write_text(program)
    subprocess.run(
        [sys.executable, str(tmp_path / "program.py")],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        check=True,
        timeout=WAIT_S,
    )
    assert keys(client, name) == []


def test_a_lost_session_is_forgotten(client: Client) -> None:
    """Though nobody closes it."""
    session = Session(client)
    client.revoke(session.lease_id)
    session._engine.lease.renew()
    assert session not in session_module._open


def test_a_writer_becomes_a_reader_inside_its_with(client: Client, session: Session, name: str) -> None:
    """Which is released where the ``with`` ends."""
    lock = ReadWriteLock(session, name)
    with lock.write.acquire(timeout=WAIT_S) as writer:
        reader = writer.downgrade()
    assert reader.released
    with lock.write:
        lock.write.current().downgrade()
    assert keys(client, name) == []


def test_a_semaphore_is_locked_when_no_permit_is_free(session: Session, theirs: Mutex) -> None:
    """As that of asyncio; a mutex of its name takes all."""
    permits = Semaphore(session, theirs.name, 2)
    with permits:
        assert not permits.locked()
        with permits:
            assert permits.locked()
    with theirs.acquire(timeout=WAIT_S):
        assert permits.locked()


@in_a_loop
async def test_an_acquisition_is_a_coroutine_for_a_task(client: Client, session: Session, name: str) -> None:
    """`create_task` takes it; the hold is its creator's."""
    mutex = aio.Mutex(session, name)
    hold = await asyncio.create_task(mutex.acquire(timeout=WAIT_S))
    assert name in repr(hold._held)
    await mutex.release()
    assert hold.released


@pytest.mark.flaky(reruns=1, reason="processor time of 3,000 names")
def test_thousands_of_names_cost_little(session: Session) -> None:
    """Each is compared with those above it alone."""
    began = time.monotonic()
    MultiLock(session, [f"a/{number}/b" for number in range(3000)])
    assert time.monotonic() - began < 2.0
