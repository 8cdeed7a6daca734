"""`lock.testing`: an etcd in memory, whose time is moved and whose losses come on command."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

import lock
from lock import EtcdUnavailable, HoldExpired, LockLost, LockTimeout, Mutex, Session, SessionLost, aio, connect
from lock.runtime.clock import CLOCK, now
from lock.testing import MemoryEtcd
from tests.support.lock import ROOT, WAIT_S, Changes
from tests.support.waiting import Patch, assert_raises, in_thread, wait_until


def test_a_lease_ends_at_once_when_time_is_moved(etcd_lock: MemoryEtcd, name: str) -> None:
    """When `advance` returns, hold and session are lost and the key is gone; a new session's token is higher."""
    hold = Mutex(etcd_lock.session(ttl=10), name).acquire()
    etcd_lock.clock.advance(11)
    assert hold.lost.is_set()
    assert etcd_lock.list_keys() == []
    assert_raises(SessionLost, hold.ensure)
    assert Mutex(etcd_lock.session(), name).acquire().token > hold.token


@pytest.mark.parametrize("kit", [lock.Mutex, lock.CohortMutex], ids=["mutex", "cohort"])
def test_waits_end_when_time_is_moved(etcd_lock: MemoryEtcd, name: str, kit: Any) -> None:
    """A timeout of an hour is over at once, also behind a thread of its process that waits on."""
    ours, theirs = etcd_lock.session(ttl=9000), etcd_lock.session(ttl=9000)
    waiting = kit(ours, name)
    with Mutex(theirs, name).acquire():
        first = in_thread(waiting.acquire)
        wait_until(lambda: len(etcd_lock.list_keys()) == 2)
        second = in_thread(waiting.acquire, timeout=3600)
        wait_until(lambda: len(waiting._cohort.waits if kit is lock.CohortMutex else etcd_lock.list_keys()[1:]) == 2)
        etcd_lock.clock.advance(3601)
        assert_raises(LockTimeout, second.result, WAIT_S, match="held by session 2")
        assert not first.done()
    first.result(WAIT_S).ensure()


def test_a_wait_of_a_task_ends_when_time_is_moved(etcd_lock: MemoryEtcd, name: str) -> None:
    """Likewise in an event loop, whose own timers go by the machine's time."""

    async def wait() -> None:
        ours, theirs = (aio.Mutex(etcd_lock.session(ttl=9000), name) for _ in range(2))
        async with theirs.acquire() as hold:
            contended = asyncio.Event()
            loop = asyncio.get_running_loop()
            hold.on_contended(lambda: loop.call_soon_threadsafe(contended.set))
            waiting = asyncio.ensure_future(asyncio.wait_for(ours.acquire(timeout=3600), WAIT_S))
            await contended.wait()
            etcd_lock.clock.advance(3601)
            with pytest.raises(LockTimeout):
                await waiting

    asyncio.run(wait())


def test_a_hold_expires_when_time_is_moved(etcd_lock: MemoryEtcd, name: str) -> None:
    """`max_hold` goes by the clock of the test, while the lease lives on; time and again, for threads race."""
    session = etcd_lock.session()
    mutex = Mutex(session, name, max_hold=5)
    for _ in range(20):
        hold = mutex.acquire()
        etcd_lock.clock.advance(5)
        assert hold.lost.is_set()
        assert_raises(HoldExpired, hold.ensure)
    session.ensure()


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, "5", True])
def test_time_goes_only_on(etcd_lock: MemoryEtcd, seconds: float) -> None:
    """The error says what `advance` takes."""
    with pytest.raises((TypeError, ValueError), match="advance takes seconds, 0 or more"):
        etcd_lock.clock.advance(seconds)


def test_the_clock_is_put_back() -> None:
    """When the last etcd in memory is closed, the library reads the machine's clock again, at no cost."""
    with MemoryEtcd() as first:
        first.clock.advance(1000)
        with MemoryEtcd() as second:
            second.clock.advance(500)
            assert now() - time.clock_gettime(CLOCK) > 1499
        assert 999 < now() - time.clock_gettime(CLOCK) < 1001
    assert now.func is time.clock_gettime  # type: ignore[attr-defined]
    assert now() - time.clock_gettime(CLOCK) < 1


def test_a_loss_comes_on_command(etcd_lock: MemoryEtcd, name: str) -> None:
    """A hold is lost when `delete` or `expire` returns; others go on. A key that is not there names those that are."""
    ours, theirs = etcd_lock.session(), etcd_lock.session()
    hold, other = Mutex(ours, name).acquire(), Mutex(ours, f"{name}-other").acquire()
    etcd_lock.delete(hold.key)
    assert hold.lost.is_set()
    assert not other.lost.is_set()
    assert_raises(LockLost, hold.release, match="deleted from elsewhere")
    assert_raises(ValueError, etcd_lock.delete, hold.key, match=other.key)
    waiting = in_thread(Mutex(theirs, other.name).acquire)
    wait_until(lambda: len(etcd_lock.list_keys(f"{other.name}/")) == 2, timeout=WAIT_S)
    ours.expire()
    assert other.lost.is_set()
    assert ours.lost.is_set()
    assert not theirs.lost.is_set()
    waiting.result(WAIT_S).ensure()


def test_a_silent_etcd_loses_holds_when_the_lease_is_over(etcd_lock: MemoryEtcd, name: str) -> None:
    """Before, a hold is ours; and what nothing tells of, a deleted key, is not known."""
    session = etcd_lock.session(ttl=10)
    hold, other = Mutex(session, name).acquire(), Mutex(session, f"{name}-other").acquire()
    etcd_lock.silence()
    etcd_lock.delete(other.key)
    etcd_lock.clock.advance(6)
    assert 0.0 < session.remaining() <= 4
    hold.ensure()
    other.ensure()
    assert_raises(EtcdUnavailable, session.expire)
    assert_raises(EtcdUnavailable, etcd_lock.session)
    etcd_lock.clock.advance(5)
    assert (hold.lost.is_set(), session.lost.is_set()) == (True, True)


def test_a_watch_breaks_in_a_silence(etcd_lock: MemoryEtcd) -> None:
    """It says so, tells nothing of what happens then, and stands again after it; a closed one has no more to tell."""
    client = etcd_lock.connect()
    client.put("a", "1")
    client.put("b", "1")
    watch = Changes(client, "a")
    assert watch.next() == []
    etcd_lock.silence()
    assert_raises(EtcdUnavailable, watch.next, match="silenced")
    with contextlib.closing(Changes(client, "b")) as late:
        etcd_lock.delete("a")
        etcd_lock.resume()
        client.put("a", "2")
        client.put("b", "2")
        for each in (watch, late):
            assert each.next() == []
            [event] = each.next()
            assert (event.deleted, event.kv.value) == (False, b"2")
    etcd_lock.close()
    assert_raises(EtcdUnavailable, watch.next, match="closed")


def test_code_that_connects_for_itself(name: str, monkeypatch: Patch) -> None:
    """`connect` stands in for that of `lock`, where no channel and no socket can be opened; a closed client says so."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("was opened")

    for module, attribute in ((grpc, "insecure_channel"), (grpc, "secure_channel"), (socket, "socket")):
        monkeypatch.setattr(module, attribute, refuse)
    with MemoryEtcd() as etcd:
        monkeypatch.setattr(sys.modules[__name__], "connect", etcd.connect)
        with connect("etcd-1:2379,etcd-2:2379", timeout=1.0, user="shop", password="secret") as client:
            with Session(client, ttl=5) as session, Mutex(session, name).acquire() as hold:
                waiting = in_thread(Mutex(etcd.session(), name).acquire)
                assert hold.key in etcd.list_keys(f"{name}/")
            waiting.result(WAIT_S)
            assert client.status() == "in memory"
        assert_raises(EtcdUnavailable, client.get, name, match="closed")


def test_the_plugin_of_pytest_costs_a_run_nothing_that_does_not_use_it() -> None:
    """The library's package names it as an entry; neither the library nor gRPC is imported with it."""
    text = (ROOT / "lock/pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points.pytest11]\netcd-lock = "pytest_etcd_lock"\n' in text
    (folder,) = re.findall(r'^package-dir = .*pytest_etcd_lock = "(.*?)"', text, re.MULTILINE)
    script = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("pytest_etcd_lock", {str(ROOT / "lock" / folder / "__init__.py")!r})
plugin = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plugin)
print(plugin.etcd_lock.__doc__, sorted({{"lock", "grpc"}} & set(sys.modules)))
"""
    told = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout == "An etcd in memory for this test. []\n"


def test_the_documented_tests_pass(tmp_path: Path) -> None:
    """As a user's file, with the fixture of the plugin; without a hold's loss they would fail."""
    (tmp_path / "conftest.py").write_text("from lock.testing.plugin import etcd_lock\n")
    shutil.copy(ROOT / "docs/examples/test_sale.py", tmp_path)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert re.search(r"^[1-9]\d* passed", ran.stdout, re.MULTILINE), ran.stdout + ran.stderr
