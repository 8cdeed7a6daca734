"""Conformance of the commands, as processes: cases e, f, m and p."""

from __future__ import annotations

import contextlib
import signal
import time

import psutil

from lock import Client
from tests.lock.conformance.conftest import Contend
from tests.lock.conformance.implementations import OURS, Implementation
from tests.support.lock import AT_ONCE_S, keys
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


def test_p_nothing_is_left(implementation: Implementation, client: Client, queue: Contend, name: str) -> None:
    """After holder and waiter have ended, etcd has neither their keys nor their leases."""
    both = [queue(implementation, name, ttl=60) for _ in range(2)]
    leases = [kv.lease_id for kv in client.get_prefix(f"{name}/").keys]
    assert both[0].holds()
    for each in reversed(both):
        each.release()
    assert keys(client, name) == []
    assert [client.time_to_live(lease).ttl for lease in leases] == [-1, -1]
