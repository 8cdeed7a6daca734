"""is_owner: the owner's proof in one's own etcd transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from loadtest.stack.servers import Etcd
from lock import Client, LockLost, Mutex, Session
from lock.etcd.transport import rpc
from tests.support.lock import WAIT_S

import etcd3  # isort: skip  (after lock, which lets it run on current protobuf)


@pytest.fixture
def database(etcd: Etcd) -> Iterator[etcd3.Etcd3Client]:
    """A client of one's own, as an application has it that keeps its data in etcd."""
    host, _, port = etcd.endpoint.rpartition(":")
    with etcd3.client(host=host, port=int(port), timeout=5) as database:
        yield database


def put_as(database: etcd3.Etcd3Client, condition: object, value: str) -> bool:
    """Write under a condition, in one transaction; whether it was written."""
    written, _ = database.transaction(
        compare=[condition], success=[database.transactions.put("ownership/data", value)], failure=[]
    )
    return bool(written)


def test_only_the_owner_writes(session: Session, stranger: Session, database: etcd3.Etcd3Client) -> None:
    """A transaction under is_owner is applied while the lock is held, and refused after it has passed on."""
    first = Mutex(session, "ownership/lock").acquire(timeout=WAIT_S)
    assert put_as(database, first.is_owner(), "first")
    proof = first.is_owner()
    first.release()
    with Mutex(stranger, "ownership/lock").acquire(timeout=WAIT_S) as second:
        assert put_as(database, second.is_owner(), "second")
        assert not put_as(database, proof, "late")
    assert database.get("ownership/data")[0] == b"second"
    database.delete("ownership/data")


def test_the_proof_fails_when_the_key_was_deleted_by_hand(
    session: Session, database: etcd3.Etcd3Client, etcdctl: Callable[..., str]
) -> None:
    """`etcdctl del` of the holder's key ends the proof at once, and tells the holder (pitfall 8)."""
    hold = Mutex(session, "ownership/by-hand").acquire(timeout=WAIT_S)
    etcdctl("del", hold.key)
    assert not put_as(database, hold.is_owner(), "late")
    assert hold.lost.wait(1.0)
    with pytest.raises(LockLost):
        hold.release()


def test_the_proof_serves_a_raw_transaction(client: Client, session: Session) -> None:
    """build_message is etcd's own Compare, for a client that speaks the protocol itself; it carries the namespace."""
    with Mutex(session, "ownership/raw").acquire(timeout=WAIT_S) as hold:
        compare = hold.is_owner().build_message()
        request = rpc.TxnRequest(compare=[compare])
        assert client._transport.call(lambda to: to.kv.Txn, request, None).succeeded
        compare.create_revision += 1
        assert not client._transport.call(lambda to: to.kv.Txn, rpc.TxnRequest(compare=[compare]), None).succeeded
