"""Conformance, cases m and n: a command under the lock, and crowds of them."""

from __future__ import annotations

import contextlib
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from lock import Client, Mutex, Session
from tests.lock.conformance.conftest import Contend
from tests.lock.conformance.implementations import ETCDCTL, LIMITED, OURS, SHARED, Implementation
from tests.support.lock import AT_ONCE_S, WAIT_S, in_thread, keys
from tests.support.waiting import has_ended, wait_until

EVERY_KIND = pytest.mark.parametrize("implementation", [OURS, SHARED, LIMITED, ETCDCTL], ids=lambda each: each.name)
SLEEPER = ["sh", "-c", "echo $$; exec sleep 60"]


@EVERY_KIND
def test_m_the_exit_code_passes(implementation: Implementation, client: Client, start: Contend, name: str) -> None:
    """A command that fails with 7 makes the whole fail with 7."""
    if implementation is ETCDCTL and client.status().startswith("3.4."):
        pytest.xfail("etcdctl 3.4 exits with 1, whatever the command's exit code")
    assert start(implementation, name, "sh", "-c", "exit 7").ends()[0] == 7


@EVERY_KIND
def test_m_a_lost_lock_ends_the_child(
    implementation: Implementation, client: Client, queue: Contend, name: str
) -> None:
    """When the lease is revoked, the command under the lock is ended, and the exit code tells it."""
    contender = queue(implementation, name, *SLEEPER)
    assert contender.holds()
    client.revoke(client.get_prefix(f"{name}/").keys[0].lease_id)
    assert contender.has_ended(within=2 * AT_ONCE_S)
    assert contender.ends()[0] != 0
    assert not psutil.pid_exists(int(contender.said))


def test_m_a_killed_keeper_takes_its_child_along(implementation: Implementation, queue: Contend, name: str) -> None:
    """When the process that holds the lock is killed, the command under it ends before another process can hold."""
    keeper, following = [queue(implementation, name, *SLEEPER, ttl=5) for _ in range(2)]
    assert keeper.holds()
    [child] = [each for each in keeper.children() if each.pid == int(keeper.said)]
    keeper.kill()
    try:
        wait_until(lambda: has_ended(child), timeout=2 * AT_ONCE_S)
        assert not following.holds(within=0)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


@EVERY_KIND
def test_m_an_interrupt_releases(implementation: Implementation, client: Client, queue: Contend, name: str) -> None:
    """Ctrl-C gives a lock back that is held without a command."""
    holder = queue(implementation, name)
    assert holder.holds()
    holder.signal(signal.SIGINT)
    assert holder.ends()[0] == 0
    assert keys(client, name) == []


def test_m_a_signal_reaches_the_child(implementation: Implementation, queue: Contend, name: str) -> None:
    """SIGTERM for the keeper is SIGTERM for the command, which may clean up and choose the exit code."""
    contender = queue(implementation, name, "bash", "-c", "trap 'exit 3' TERM; echo in; while sleep 0.05; do :; done")
    assert contender.holds()
    contender.signal(signal.SIGTERM)
    assert contender.has_ended(within=2 * AT_ONCE_S)
    assert contender.ends()[0] == 3


@pytest.mark.timeout(180)
@pytest.mark.parametrize("times", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_n_increments_from_the_shell(
    implementation: Implementation, start: Contend, tmp_path: Path, name: str, times: int
) -> None:
    """Many read-modify-writes of a file, two dozen at a time, lose nothing under the lock."""
    counter = tmp_path / "counter"
    counter.write_text("0\n")
    script = f"n=$(expr 1 + $(cat {counter})); echo $n > {counter}"
    with ThreadPoolExecutor(24) as pool:
        codes = list(pool.map(lambda _: start(implementation, name, "sh", "-c", script).ends()[0], range(times)))
    assert codes == [0] * times
    assert counter.read_text() == f"{times}\n"


def test_n_a_thousand_threads_share_one_mutex(session: Session, client: Client, name: str) -> None:
    """A thousand threads that all wait at once increment a variable once each."""
    mutex, count = Mutex(session, name), [0]

    def increment() -> None:
        with mutex.acquire(timeout=10 * WAIT_S):
            before = count[0]
            threading.Event().wait(0)  # lets other threads run between the read and the write
            count[0] = before + 1

    with mutex.acquire(timeout=WAIT_S):
        increments = [in_thread(increment) for _ in range(1000)]
        wait_until(lambda: len(keys(client, name)) == 1001, timeout=10 * WAIT_S)
    for done in increments:
        done.result(10 * WAIT_S)
    assert count == [1000]
    assert keys(client, name) == []
