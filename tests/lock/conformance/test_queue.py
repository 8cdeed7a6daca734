"""Conformance, cases a, b, c, f, k and l: who holds, in which order, and how a wait ends."""

from __future__ import annotations

import time

from loadtest.bench.locks.rpc import LockRpc
from loadtest.stack.servers import Etcd, EtcdCluster
from lock import Client, Mutex, Session
from tests.lock.conformance.conftest import Contend
from tests.lock.conformance.implementations import ETCDCTL, OURS, Contender, Implementation
from tests.support.lock import AT_ONCE_S, WAIT_S, in_thread, keys, put
from tests.support.waiting import wait_until


def serve(contenders: list[Contender], expected: list[str]) -> None:
    """Let each release once it holds: never two at a time, and in the order expected."""
    for position, contender in enumerate(contenders):
        assert contender.holds()
        assert [each.said for each in contenders if each.holds(within=0)] == expected[: position + 1]
        contender.release()


def test_b_five_are_served_in_order(
    implementation: Implementation, client: Client, session: Session, queue: Contend, name: str
) -> None:
    """Five processes that queued one after the other hold in that order, which `contenders()` shows."""
    contenders = [queue(implementation, name) for _ in range(5)]
    expected = [contender.key for contender in Mutex(session, name).contenders()]
    assert expected == keys(client, name)
    serve(contenders, expected)
    assert keys(client, name) == []


def test_b_five_over_three_endpoints_in_order(
    implementation: Implementation, cluster: EtcdCluster, observer: Client, queue: Contend, name: str
) -> None:
    """The same where each has another member of a cluster for its first endpoint."""
    addresses = [member.endpoint for member in cluster.members]
    contenders = [
        queue(implementation, name, observer=observer, endpoints=",".join(addresses[first:] + addresses[:first]))
        for first in (0, 1, 2, 0, 1)
    ]
    serve(contenders, keys(observer, name))
    assert keys(observer, name) == []


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


def test_k_a_name_below_is_named(implementation: Implementation, queue: Contend, name: str) -> None:
    """A lock on `a` waits for a lock on `a/b`; it does so not in silence, but names the key it waits for."""
    below = queue(OURS, f"{name}/b")
    assert below.holds()
    above = queue(implementation, name, timeout=0.5)
    assert above.has_ended(within=0.5 + 2 * AT_ONCE_S)
    assert below.said in above.ends()[1]


def test_k_a_stray_key_is_named(implementation: Implementation, client: Client, queue: Contend, name: str) -> None:
    """A key that was put below the name by hand, without a lease, blocks it; the message says which key that is."""
    stray = put(client, f"{name}/1", b"by hand", lease_id=0)
    waiter = queue(implementation, name, timeout=0.5)
    assert waiter.has_ended(within=0.5 + 2 * AT_ONCE_S)
    assert stray.key in waiter.ends()[1]
    client.delete(stray.key, stray.create_revision)


def test_k_a_sibling_does_not_matter(implementation: Implementation, queue: Contend, name: str) -> None:
    """`a` and `ab` are different locks."""
    assert queue(OURS, f"{name}b").holds()
    assert queue(implementation, name).holds()


def test_l_one_queue(
    etcd: Etcd, client: Client, session: Session, stranger: Session, queue: Contend, name: str
) -> None:
    """Python, the command, etcdctl and the server's lock RPC exclude each other: first come, first served."""
    order, mutex = [], Mutex(session, name)
    rpc = LockRpc(etcd.endpoint)

    def by_python() -> None:
        with mutex.acquire(timeout=WAIT_S) as hold:
            order.append(hold.key)

    def by_rpc() -> None:
        key = rpc.lock(name, stranger.lease_id, timeout=WAIT_S)
        order.append(key.decode())
        rpc.unlock(key, timeout=WAIT_S)

    def in_process(contender: Contender) -> None:
        assert contender.holds()
        order.append(contender.said)
        contender.release()

    first = mutex.acquire(timeout=WAIT_S)
    turns = []
    for which in (by_rpc, ETCDCTL, by_python, OURS, ETCDCTL):
        turns.append(in_thread(which) if callable(which) else in_thread(in_process, queue(which, name)))
        wait_until(lambda: len(keys(client, name)) == 1 + len(turns), timeout=WAIT_S)
    expected = keys(client, name)[1:]
    first.release()
    for done in turns:
        done.result(WAIT_S)
    rpc.close()
    assert order == expected
