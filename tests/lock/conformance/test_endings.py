"""Conformance, cases d, e, g, h and p: what becomes of the lock when a process ends."""

from __future__ import annotations

import subprocess
import time

import pytest

from loadtest.stack import programs
from loadtest.stack.servers import Etcd
from lock import Client, connect
from tests.lock.conformance.conftest import Contend
from tests.lock.conformance.implementations import ETCDCTL, OURS, Implementation
from tests.support.lock import AT_ONCE_S, WAIT_S, keys


def leases(etcd: Etcd) -> list[str]:
    """The leases that this etcd knows."""
    command = [str(programs.etcdctl()), f"--endpoints={etcd.endpoint}", "lease", "list"]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=True).stdout.splitlines()[1:]


def test_d_a_middle_waiter_dies(implementation: Implementation, client: Client, queue: Contend, name: str) -> None:
    """Killed, its lease over: the waiter behind it goes on waiting for the holder, and follows it within a second."""
    holder, middle, last = [queue(implementation, name) for _ in range(3)]
    assert holder.holds()
    key = client.get_prefix(f"{name}/").keys[1]
    middle.kill()
    client.revoke(key.lease_id)  # as etcd does after the TTL
    assert not last.holds(within=0.3)
    holder.release()
    assert last.holds(within=AT_ONCE_S)


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


@pytest.mark.parametrize("ttl", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_g_a_killed_holder_blocks_for_its_ttl(client: Client, queue: Contend, name: str, ttl: int) -> None:
    """After kill -9 the next one holds when the TTL since the last renewal is over, not earlier; so with etcdctl."""
    pairs = [[queue(which, f"{name}/{which.name}", ttl=ttl) for _ in range(2)] for which in (OURS, ETCDCTL)]
    assert all(holder.holds() for holder, _ in pairs)
    renewed = time.monotonic()
    for which, (holder, _) in zip((OURS, ETCDCTL), pairs, strict=True):
        client.keep_alive(client.get_prefix(f"{name}/{which.name}/").keys[0].lease_id)
        holder.kill()
    for _, following in pairs:
        assert not following.holds(within=max(renewed + ttl - time.monotonic(), 0))
    for _, following in pairs:
        assert following.holds(within=WAIT_S)


def test_g_a_clean_end_frees_at_once(implementation: Implementation, queue: Contend, name: str) -> None:
    """When the holder ends by itself, the next one holds at once."""
    holder, following = [queue(implementation, name) for _ in range(2)]
    assert holder.holds()
    holder.release()
    assert following.holds(within=AT_ONCE_S)


@pytest.mark.slow
def test_h_a_hold_outlives_its_ttl(implementation: Implementation, client: Client, queue: Contend, name: str) -> None:
    """Held for three times its TTL it is still held; and the TTL is the one that etcd granted: two seconds for one."""
    holder = queue(implementation, name, ttl=1)
    assert holder.holds()
    kv = client.get_prefix(f"{name}/").keys[0]
    granted = client.time_to_live(kv.lease_id).granted_ttl
    assert granted == 2
    assert not holder.has_ended(within=3 * granted)
    assert client.get_prefix(f"{name}/").keys == [kv]


def test_p_nothing_is_left(implementation: Implementation, fresh_etcd: Etcd, queue: Contend, name: str) -> None:
    """After holder and waiter have ended, etcd has neither a key nor a lease."""
    with connect(fresh_etcd.endpoint) as observer:
        both = [queue(implementation, name, observer=observer, endpoints=fresh_etcd.endpoint) for _ in range(2)]
        assert both[0].holds()
        both[1].release()
        both[0].release()
        assert keys(observer, name) == []
        assert leases(fresh_etcd) == []
