"""The client: typed results of a real etcd, also through `etcd grpc-proxy`, and whatever its observer does."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from loadtest.ports import LOOPBACK
from loadtest.stack import binaries
from loadtest.stack.process import ManagedProcess
from loadtest.stack.servers import Etcd, answers_ok
from lock import Client, EtcdUnavailable, Mutex, Session, Tls, connect
from lock.core.admission import EXCLUSIVE
from lock.core.messages import Create, FindPosition, ListQueue, Written
from lock.core.queue import Position, Queue, Ticket
from lock.etcd.transport import parse_endpoints
from lock.model import KeyValue
from tests.support.lock import AT_ONCE_S, ROOT, WAIT_S, Changes, delete, keys, put, queue_up
from tests.support.waiting import assert_raises, in_thread, wait_until

NO_LEASE = 0


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("127.0.0.1:2379", ["127.0.0.1:2379"]),
        ("a:1,b:2,c:65535", ["a:1", "b:2", "c:65535"]),
        (" a:1 , b:2 ,", ["a:1", "b:2"]),
        ("http://a:1,https://b:2/", ["a:1", "b:2"]),
        ("[::1]:2379", ["[::1]:2379"]),
    ],
)
def test_endpoints_are_read_as_etcdctl_reads_them(text: str, addresses: list[str]) -> None:
    """Separated by commas, with or without a scheme."""
    assert parse_endpoints(text) == addresses


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *[
            ({"endpoints": text}, r"127\.0\.0\.1:2379")
            for text in ("", ",", "localhost", "localhost:", ":2379", "http://", "a:1,b", "a:port", "a:1:", "a:65536")
        ],
        *[
            ({"timeout": timeout}, "timeout is seconds, a finite number of more than 0")
            for timeout in (0, -1, math.nan, math.inf, "5", None, True)
        ],
        *[({one: "secret"}, "password are given together") for one in ("user", "password")],
        *[({"tls": Tls("ca.crt", **{one: "a.pem"})}, "key are given together") for one in ("cert", "key")],
        ({"endpoints": "https://127.0.0.1:2379"}, "tls"),
        ({"tls": Tls("/missing/ca.crt")}, r"/missing/ca\.crt"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(options: dict[str, Any], said: str) -> None:
    """A typing error is found by connect(), not by the first purchase; the message says what to give."""
    assert_raises((TypeError, ValueError, OSError), connect, **options, match=said)


@pytest.mark.parametrize("patched", ["", "thread=False"])
def test_patched_threads_are_refused(patched: str) -> None:
    """Under gevent's monkey patch the first wait would freeze the process: connect() says so, and what to do."""
    code = f"from gevent import monkey; monkey.patch_all({patched}); import lock; lock.connect()"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S)
    assert "RuntimeError: gevent has patched this process" in run.stderr
    assert "gthread" in run.stderr


def test_a_write_tells_what_it_has_found(client: Client) -> None:
    """The key, its queue counted with it or listed, and whether it was there; `if_free` writes beside no other key."""
    prefix = "client/alone/"
    client.create("client/alon", b"", NO_LEASE)

    def create(key: str, **options: Any) -> Written:
        return client.call(client.requests.create_key(Create(key, b"", NO_LEASE, prefix, **options)))

    first = create(f"{prefix}b", if_free=True)
    assert first.kv is not None
    assert first.kv.create_revision == first.revision
    assert (first.number, first.was_there) == (1, False)
    assert create(f"{prefix}a", if_free=True, lists=True)[:3] == (None, 1, [first.kv])
    again, second = create(f"{prefix}b"), create(f"{prefix}a")
    assert (again.kv, again.number, again.was_there) == (first.kv, 1, True)
    assert (second.number, second.was_there) == (2, False)
    for listed, keys_found in ((prefix, [first.kv]), ("client/none/", [])):
        assert client.call(client.requests.list_queue(ListQueue(listed, 0, only_first=True))).keys == keys_found


def test_a_place_is_found_in_one_step(client: Client) -> None:
    """By the write, unless it is repeated behind others; by a read, where the key before is gone, or another one."""
    prefix = "client/place/"

    def create(name: str) -> Written:
        wanted = Create(prefix + name, b"value", NO_LEASE, prefix, finds_position=True)
        return client.call(client.requests.create_key(wanted))

    def find(name: str, created: int, before: KeyValue | None) -> tuple[KeyValue | None, KeyValue | None]:
        place = Position(Ticket(Queue(prefix), 1, prefix + name, EXCLUSIVE, 0, None, created=created), before, 0.0)
        found = client.call(client.requests.find_position(FindPosition(place, 0)))
        assert found.revision == client.get_prefix(prefix).revision
        return found.own, found.before

    alone = create("c")
    assert (alone.before, alone.number) == (None, 1)
    first, second, third = (kv._replace(value=b"") for kv in (alone.kv, create("b").kv, create("a").kv) if kv)
    assert create("a").before == second  # that was there, and is the last one
    assert create("b").before is None
    assert create("b").number == 3
    for known in (None, first._replace(create_revision=1), second):
        assert find("a", third.create_revision, known) == (third, second)
    assert find("a", third.create_revision, first) == (third, first)  # which is there, and that is enough
    put(client, f"{prefix}aa")
    delete(client, second.key)
    assert find("a", third.create_revision, second) == (third, first)
    put(client, second.key)
    assert find("a", third.create_revision, second) == (third, first)
    delete(client, first.key)
    assert find("a", third.create_revision, first) == (third, None)
    delete(client, third.key)
    assert find("a", third.create_revision, None) == (None, None)


def test_only_the_very_key_is_deleted(client: Client) -> None:
    """A key that was created at the revision given, and no newer one of its name; without a revision any."""
    key = "client/delete/a"
    first = put(client, key)
    assert delete(client, key, first.create_revision)
    second = put(client, key)
    assert not delete(client, key, first.create_revision)
    assert delete(client, key, second.create_revision)
    put(client, key)
    assert delete(client, key)
    assert not delete(client, key)


def test_a_list_may_be_longer_than_grpcs_limit(client: Client) -> None:
    """Six megabytes of keys come in one list; gRPC's default refuses four."""
    for number in range(5):
        client.create(f"client/long/{number}", bytes(1_300_000), NO_LEASE, timeout=WAIT_S)
    found = client.get_prefix("client/long/", timeout=WAIT_S).keys
    assert len(found) == 5
    for kv in found:
        delete(client, kv.key)


def test_a_closed_client_answers_with_a_typed_error(etcd: Etcd) -> None:
    """After close(), calls and watches, and one that is read, raise EtcdUnavailable."""
    client = connect(etcd.endpoint)
    changes = Changes(client, "client/closing/")
    assert changes.next() == []
    following = in_thread(changes.next)
    for _ in range(2):
        client.close()
    for call in (lambda: following.result(WAIT_S), client.status, Changes(client, "client/closed/").next):
        assert_raises(EtcdUnavailable, call, match="closed")


@pytest.mark.parametrize("failure", [ValueError, SystemExit])  # the first is also gRPC's word for a closed channel
def test_an_observer_that_fails_ends_nothing(
    etcd: Etcd, client: Client, name: str, caplog: pytest.LogCaptureFixture, failure: type[BaseException]
) -> None:
    """Callers get etcd's answers, and the log the errors; leases are kept alive, queues followed and keys deleted."""
    told: set[tuple[str, str]] = set()

    def fail(call: str, *_: object) -> None:
        told.add((threading.current_thread().name.partition(" ")[0], call))
        raise failure("a bug in an observer")

    with connect(etcd.endpoint, observer=fail) as observed, Session(observed, ttl=60) as session:
        for _ in range(2):
            told.clear()
            hold = Mutex(session, name).acquire(timeout=WAIT_S)
            waiting = queue_up(client, Mutex(session, name))
            hold.release()
            waiting.result(WAIT_S).release()
            session._engine.lease.wake()
            wait_until(lambda: {("lock-call", "LeaseKeepAlive"), ("lock-watch", "Watch")} <= told)
        assert keys(client, name) == []
    assert "a bug in an observer" in caplog.text


class GrpcProxy(ManagedProcess):
    def __init__(self, directory: Path, target: str) -> None:
        super().__init__("grpc-proxy", directory, port=0)
        self.endpoint = f"{LOOPBACK}:{self.port}"
        self._target = target

    def command(self) -> list[str]:
        flags = {
            "endpoints": self._target,
            "listen-addr": self.endpoint,
            "advertise-client-url": self.endpoint,  # where it calls itself
            "data-dir": str(self.directory / "data"),
        }
        return [str(binaries.etcd()), "grpc-proxy", "start", *(f"--{flag}={value}" for flag, value in flags.items())]

    def is_ready(self) -> bool:
        return answers_ok(f"http://{self.endpoint}/health")


def test_a_lock_works_through_the_proxy(etcd: Etcd, client: Client, stranger: Session, tmp_path: Path) -> None:
    """Every renewal is answered (the proxy takes half a second for one), also of a lease that is gone; turns come."""
    hold = Mutex(stranger, "grpc-proxy/hand-over").acquire(timeout=WAIT_S)
    with GrpcProxy(tmp_path, etcd.endpoint) as proxy, connect(proxy.endpoint, timeout=WAIT_S) as proxied:
        lease = proxied.grant(30)
        assert [proxied.keep_alive(lease.id) for _ in range(3)] == [30] * 3
        proxied.revoke(lease.id)
        assert proxied.keep_alive(lease.id) == 0
        with Session(proxied) as session:
            waiting = queue_up(client, Mutex(session, hold.name))
            hold.release()
            waiting.result(AT_ONCE_S).release()


# The bridge: etcd3's client on current protobuf, without running generated code or disturbing other packages


def test_etcd3s_own_client_works_beside_ours_on_the_fast_runtime(etcd: Etcd) -> None:
    """After `import lock` it works on installed protobuf, in C (upb), beside another's kv.proto; twice is once."""
    host, port = etcd.endpoint.split(":")
    code = f"""
from google.protobuf import descriptor_pb2, descriptor_pool
for name in ("kv.proto", "rpc.proto", "auth.proto"):
    file = descriptor_pb2.FileDescriptorProto(name=name, package="mvccpb")
    file.message_type.add(name="KeyValue" if name == "kv.proto" else "Other" + name[:2])
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
import lock, etcd3, sys
from google.protobuf.internal import api_implementation
from lock.etcd import protobuf_compat
from lock.etcd.transport import rpc
client = etcd3.client({host!r}, {port})
lease = client.lease(60)
client.put("bridge/a", "one", lease)
print(client.get("bridge/a")[0].decode(), lease.remaining_ttl > 0)
lease.revoke()
print(client.get("bridge/a")[0])
print(api_implementation.Type())
print(rpc.PutRequest(key=b"k", value=b"v", lease=5).SerializeToString().hex())
before = sys.modules["etcd3.etcdrpc.rpc_pb2"]
protobuf_compat.install()
print(sys.modules["etcd3.etcdrpc.rpc_pb2"] is before)
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split("\n")[:-1] == ["one True", "None", "upb", (b"\n\x01k\x12\x01v\x18\x05").hex(), "True"]
