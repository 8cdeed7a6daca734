"""Conformance of the commands, as processes: cases e, f, k, m, n and p."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from lock import Client, Mutex, Session
from tests.lock.conformance.conftest import Contend
from tests.lock.conformance.implementations import OURS, Implementation
from tests.support.lock import AT_ONCE_S, WAIT_S, in_thread, keys, put
from tests.support.waiting import has_ended, wait_until

SLEEPER = ["sh", "-c", "echo $$; exec sleep 60"]


def test_e_a_waiter_whose_lease_is_gone_is_told(
    implementation: Implementation, client: Client, queue: Contend, name: str
) -> None:
    """It ends at once, with an error, although it could wait on; the holder is undisturbed."""
    holder, waiter = [queue(implementation, name) for _ in range(2)]
    assert holder.holds()
    first, second = client.get_prefix(f"{name}/").keys
    client.revoke(second.lease_id)
    assert waiter.has_ended(within=2 * AT_ONCE_S)
    code, message = waiter.ends()
    assert code != 0
    assert f"{second.lease_id:x}" in message
    assert keys(client, name) == [first.key]
    assert not holder.has_ended(within=0)


def test_f_a_wait_has_an_end(implementation: Implementation, client: Client, queue: Contend, name: str) -> None:
    """Half a second was given: it ends then and not before, leaves no key, and names the holder's."""
    holder = queue(OURS, name)
    assert holder.holds()
    began = time.monotonic()
    waiter = queue(implementation, name, timeout=0.5)
    assert waiter.has_ended(within=0.5 + 2 * AT_ONCE_S)
    assert time.monotonic() - began >= 0.5
    assert holder.said in waiter.ends()[1]
    assert keys(client, name) == [holder.said]


def test_k_a_stray_key_is_named(implementation: Implementation, client: Client, queue: Contend, name: str) -> None:
    """A key below the name that was put by hand, without a lease, blocks it; the message says which key that is."""
    stray = put(client, f"{name}/b/1", b"by hand", lease_id=0)
    waiter = queue(implementation, name, timeout=0.5)
    assert waiter.has_ended(within=0.5 + 2 * AT_ONCE_S)
    assert stray.key in waiter.ends()[1]
    client.delete(stray.key, stray.create_revision)


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


def test_m_a_signal_reaches_the_child(implementation: Implementation, queue: Contend, name: str) -> None:
    """SIGTERM for the keeper is SIGTERM for the command, which may clean up and choose the exit code."""
    contender = queue(implementation, name, "bash", "-c", "trap 'exit 3' TERM; echo in; while sleep 0.05; do :; done")
    assert contender.holds()
    contender.signal(signal.SIGTERM)
    assert contender.has_ended(within=2 * AT_ONCE_S)
    assert contender.ends()[0] == 3


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_n_a_hundred_increments_from_the_shell(
    implementation: Implementation, start: Contend, tmp_path: Path, name: str
) -> None:
    """Read-modify-writes of a file, two dozen at a time, lose nothing under the lock."""
    counter = tmp_path / "counter"
    counter.write_text("0\n")
    script = f"n=$(expr 1 + $(cat {counter})); echo $n > {counter}"
    with ThreadPoolExecutor(24) as pool:
        codes = list(pool.map(lambda _: start(implementation, name, "sh", "-c", script).ends()[0], range(100)))
    assert codes == [0] * 100
    assert counter.read_text() == "100\n"


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


def test_p_nothing_is_left(implementation: Implementation, client: Client, queue: Contend, name: str) -> None:
    """After holder and waiter have ended, etcd has neither their keys nor their leases."""
    both = [queue(implementation, name) for _ in range(2)]
    leases = [kv.lease_id for kv in client.get_prefix(f"{name}/").keys]
    assert both[0].holds()
    for each in reversed(both):
        each.release()
    assert keys(client, name) == []
    assert [client.time_to_live(lease).ttl for lease in leases] == [-1, -1]
