"""How a call reaches etcd: every one ends before its deadline, at whatever endpoint answers."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, NoReturn
from unittest.mock import Mock

import grpc
import pytest

from loadtest.ports import LOOPBACK, free_port
from loadtest.stack.proxy import Proxy
from loadtest.stack.servers import Etcd
from lock import Client, EtcdDenied, EtcdError, EtcdUnavailable, LeaseNotFound, Mutex, Session, connect
from lock.core.messages import Create, Delete
from lock.etcd.grpc_errors import refused as is_refusal
from lock.etcd.grpc_errors import translate
from tests.support.lock import WAIT_S, Changes, delete, lock_threads, metric, put, queue_up
from tests.support.waiting import Patch, assert_goes_on, assert_raises, in_thread, wait_until

SLACK_S = 3.0  # what a busy machine may add to a deadline; the next larger deadline is beyond
NO_LEASE = 0

CALLS: dict[str, Callable[[Client], object]] = {
    "grant": lambda client: client.grant(5, timeout=0.3),
    "keep_alive": lambda client: client.keep_alive(1, timeout=0.3),
    "time_to_live": lambda client: client.time_to_live(1, timeout=0.3),
    "revoke": lambda client: client.revoke(1, timeout=0.3),
    "create": lambda client: client.create("a/b", b"", NO_LEASE, timeout=0.3),
    "delete": lambda client: client.call(client.requests.delete_keys(Delete((("a/b", 1),), (), 0)), 0.3),
    "get_prefix": lambda client: client.get_prefix("a/", timeout=0.3),
    "status": lambda client: client.status(timeout=0.3),
}


@pytest.fixture
def silent() -> Iterator[str]:
    """An endpoint that accepts connections and never answers: a process that hangs, or a firewall."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        yield f"{LOOPBACK}:{listener.getsockname()[1]}"


@pytest.fixture
def refused() -> str:
    return f"{LOOPBACK}:{free_port()}"


def seconds(call: Callable[[], object]) -> float:
    """How long it took to tell that no endpoint answered."""
    started = time.monotonic()
    assert_raises(EtcdUnavailable, call, match="no etcd endpoint answered")
    return time.monotonic() - started


@pytest.mark.flaky(reruns=1, reason="a deadline, plus what a busy machine may add")
def test_no_call_waits_longer_than_its_deadline(silent: str) -> None:
    """Or that of connect(): ten endpoints that never answer cost no more than one, nor does logging in before."""
    with connect(silent, timeout=30) as client, connect(silent, user="shop", password="secret") as login:
        waits = {name: in_thread(seconds, partial(call, client)) for name, call in CALLS.items()}
        waits["logging in"] = in_thread(seconds, partial(login.status, timeout=0.3))
        for name, wait in waits.items():
            assert 0.2 < wait.result(20) < 0.3 + SLACK_S, name
    with connect(",".join([silent] * 10), timeout=0.6) as client:
        assert 0.5 < seconds(client.status) < 0.6 + SLACK_S


def test_a_refusal_is_told_at_once_and_by_name(refused: str) -> None:
    """Where no server listens, the error comes without waiting, names each endpoint and asks the right question."""
    other = f"{LOOPBACK}:{free_port()}"
    with connect(f"{refused},{other}", timeout=30) as client:
        assert seconds(client.status) < 5
        with pytest.raises(EtcdUnavailable, match=f"{refused}.*is etcd running there") as caught:
            client.status()
    assert other in str(caught.value)


@pytest.mark.flaky(reruns=1, reason="ten calls within four seconds")
def test_a_silent_endpoint_is_not_asked_again(etcd: Etcd, silent: str) -> None:
    """It costs its share of the deadline once."""
    with connect(f"{silent},{etcd.endpoint}", timeout=1.0) as client:
        assert client.status()
        started = time.monotonic()
        for _ in range(10):
            client.status()
        assert time.monotonic() - started < 4.0  # not half a second each


@pytest.mark.parametrize(
    "ask", [lambda client: client.status(timeout=0.5), lambda client: [Changes(client, "transport/watch/").next()]]
)
def test_endpoints_go_round(etcd: Etcd, ask: Callable[[Client], object]) -> None:
    """Failing over goes round, also where nothing but watches finds it out: no endpoint is given up for good."""

    def works() -> bool:
        with contextlib.suppress(EtcdUnavailable):
            return bool(ask(client))
        return False

    with ExitStack() as stack:
        one, two = stack.enter_context(Proxy(etcd.endpoint)), stack.enter_context(Proxy(etcd.endpoint))
        client = stack.enter_context(connect(f"{one.endpoint},{two.endpoint}", timeout=2.0))
        for broken, healed in ((one, two), (two, one)):
            broken.refuse()
            healed.start()
            wait_until(works)


def test_each_endpoint_that_did_not_answer_is_told_of(etcd: Etcd, client: Client, silent: str) -> None:
    """The caller has to know: it may do later what another one has done by now, or none."""
    unanswered: list[str] = []
    with connect(f"{silent},{etcd.endpoint}", timeout=0.6) as both:
        request = both.requests.create_key(Create("transport/told", b"", NO_LEASE))
        both.call(request, unanswered=lambda: unanswered.append("silent"))
        assert unanswered == ["silent"]
        assert delete(client, "transport/told")
    with connect(silent, timeout=0.3) as alone:
        request = alone.requests.create_key(Create("transport/told", b"", NO_LEASE))
        assert_raises(EtcdUnavailable, alone.call, request, unanswered=lambda: unanswered.append("alone"))
    assert unanswered == ["silent", "alone"]
    refused_one = client.requests.create_key(Create("transport/told", b"", 1))
    assert_raises(LeaseNotFound, client.call, refused_one, unanswered=lambda: unanswered.append("refused"))
    assert unanswered == ["silent", "alone"]


class Said(grpc.RpcError):  # type: ignore[misc]
    """What gRPC raises."""

    def __init__(self, code: grpc.StatusCode, said: str) -> None:
        self.code, self.details = lambda: code, lambda: said


@pytest.mark.parametrize(
    ("code", "said", "error", "in_doubt"),
    [
        (grpc.StatusCode.INTERNAL, "Received RST_STREAM with error code 2", EtcdError, True),  # of a network's proxy
        (grpc.StatusCode.UNAVAILABLE, "etcdserver: request timed out", EtcdUnavailable, True),
        (grpc.StatusCode.UNKNOWN, "context deadline exceeded", EtcdUnavailable, True),
        (grpc.StatusCode.UNKNOWN, "context canceled", EtcdUnavailable, True),
        (grpc.StatusCode.CANCELLED, "context canceled", EtcdUnavailable, True),
        (grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token", EtcdDenied, False),
        (grpc.StatusCode.NOT_FOUND, "no route to that service", EtcdError, True),
        (grpc.StatusCode.NOT_FOUND, "etcdserver: requested lease not found", LeaseNotFound, False),
        (grpc.StatusCode.OUT_OF_RANGE, "etcdserver: too large lease TTL", EtcdError, False),
        (grpc.StatusCode.UNIMPLEMENTED, "", EtcdError, True),
    ],
)
def test_what_is_said_has_one_error(code: grpc.StatusCode, said: str, error: type, in_doubt: bool) -> None:
    """Only etcd's word that a lease is gone is LeaseNotFound; where etcd did not refuse, it may have been done."""
    told = translate(Said(code, said))
    assert type(told) is error
    assert (said or code.name.lower()) in str(told)
    assert is_refusal(Said(code, said)) is not in_doubt


@pytest.mark.parametrize("read", [True, False])
def test_a_watch_moves_when_a_call_finds_its_endpoint_silent(both: Client, proxy: Proxy, read: bool) -> None:
    """It would be silent, too, until gRPC finds that out 13 s later; one that was not read yet is not opened there."""
    changes = Changes(both, "transport/silent/")
    assert not read or changes.next() == []
    proxy.stall()
    both.status()
    assert_raises(EtcdUnavailable, changes.next, match="another endpoint")
    assert Changes(both, "transport/silent/").next() == []


@pytest.mark.flaky(reruns=1, reason="gRPC's pings, plus what a busy machine may add")
@pytest.mark.slow
@pytest.mark.long
def test_a_watch_that_has_been_silent_for_long_finds_that_out_too(both: Client, proxy: Proxy) -> None:
    """gRPC pings its endpoint every 10 s, however long nothing is said, and waits 3 s; etcd does not mind."""
    changes = Changes(both, "transport/long/")
    assert changes.next() == []
    following = in_thread(changes.next, 100.0)
    assert_goes_on(following, 35.0)
    proxy.stall()
    assert_raises(EtcdUnavailable, following.result, 13.0 + 4 * SLACK_S)


@pytest.mark.parametrize("hurry", [True, False])
def test_a_watch_stays(both: Client, far: Client, proxy: Proxy, client: Client, hurry: bool) -> None:
    """Where a call gave its endpoint mere milliseconds, which says little; and where there is no other endpoint."""
    watching = both if hurry else far
    changes = Changes(watching, "transport/stays/")
    assert changes.next() == []
    proxy.stall()
    with contextlib.suppress(EtcdUnavailable):
        watching.status(timeout=0.05 if hurry else None)
    proxy.resume()
    kv = put(client, "transport/stays/a")
    assert [event.kv for event in changes.next()] == [kv]
    delete(client, kv.key)


def test_a_web_proxy_is_not_pending(etcd: Etcd, refused: str, monkeypatch: Patch) -> None:
    """Where one is in the environment, as on many a company's laptop, gRPC would send everything there."""
    for variable in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(variable, f"http://{refused}")
    with connect(etcd.endpoint) as client:
        assert client.status()


# Streams: they end, and leave nothing of gRPC's behind that could keep the interpreter from ending


class Ended:
    """A stream that ends before it has answered."""

    cancel = staticmethod(lambda: None)

    def __iter__(self) -> Ended:
        return self

    def __next__(self) -> NoReturn:
        raise StopIteration


@pytest.mark.parametrize("ends", [lambda watch, _: watch.close(), lambda _, proxy: proxy.reset()], ids=["close", "cut"])
@pytest.mark.usefixtures("no_garbage_collector")
def test_the_call_of_a_watch_goes_with_it(
    far: Client, proxy: Proxy, monkeypatch: Patch, ends: Callable[[Changes, Proxy], None]
) -> None:
    """Its deletion takes a lock of gRPC's threads, which hangs where it is left for the end of the interpreter."""
    endpoint, calls = far.endpoints[0], list[weakref.ref[Any]]()
    watch_by = endpoint.watch.Watch

    def kept(*args: Any, **options: Any) -> Any:
        call = watch_by(*args, **options)
        calls.append(weakref.ref(call))
        return call

    monkeypatch.setattr(endpoint.watch, "Watch", kept)
    watch = Changes(far, "stream/call/")
    assert watch.next() == []
    assert [call() is None for call in calls] == [False]
    ends(watch, proxy)
    wait_until(lambda: calls[0]() is None)
    watch.close()


def test_a_watch_that_ends_without_an_error_is_an_error(client: Client, monkeypatch: Patch) -> None:
    """Something between us and etcd may end it so: its reader lists again after a pause, and does not spin."""
    monkeypatch.setattr(client.endpoints[0].watch, "Watch", lambda *_, **__: Ended())
    assert_raises(EtcdUnavailable, Changes(client, "stream/ended/").next, match="ended the stream")


def test_a_renewal_without_an_answer_is_sent_to_the_next_endpoint(etcd: Etcd, monkeypatch: Patch) -> None:
    """As with any call that an endpoint does not answer; where none does, it is EtcdUnavailable."""
    with connect(f"{etcd.endpoint},{etcd.endpoint}") as client:
        lease = client.grant(30)
        first, second = client.endpoints
        monkeypatch.setattr(first.lease, "LeaseKeepAlive", lambda requests, **options: Ended())
        assert client.keep_alive(lease.id) == 30
        monkeypatch.setattr(second.lease, "LeaseKeepAlive", lambda requests, **options: Ended())
        assert_raises(EtcdUnavailable, client.keep_alive, lease.id, match="without an answer")
        client.revoke(lease.id)


# What a watch says when it begins, and how long its stream lives


@pytest.mark.parametrize(
    ("is_known", "writes", "told"),
    [(True, 0, ["DELETE"]), (True, 1, ["begins", "DELETE"]), (False, 0, ["begins", "DELETE"])],
)
def test_a_watch_that_misses_nothing_does_not_say_that_it_begins(
    client: Client, is_known: bool, writes: int, told: list[str]
) -> None:
    """Where its listener has read the key at the revision from which etcd watches on; other keys are not told."""
    updates: queue.SimpleQueue[Any] = queue.SimpleQueue()
    kv = put(client, "watches/known/a")
    for _ in range(writes):
        put(client, "watches/known/ab")
    watch = client.watches.add(kv.key, updates.put, is_key=True, known=kv.mod_revision if is_known else 0)
    wait_until(lambda: watch.id is not None)
    put(client, "watches/known/a/b")
    for key in ("watches/known/a/b", "watches/known/ab", kv.key):
        delete(client, key)
    assert ["DELETE" if updates.get(timeout=WAIT_S) else "begins" for _ in told] == told
    client.watches.remove(watch)
    assert updates.empty()


def test_a_watch_that_has_broken_says_that_it_begins(far: Client, proxy: Proxy) -> None:
    """Though etcd has made no step meanwhile: another one may answer now."""
    updates: queue.SimpleQueue[Any] = queue.SimpleQueue()
    kv = put(far, "watches/broken/a")
    watch = far.watches.add(kv.key, updates.put, is_key=True, known=kv.mod_revision)
    wait_until(lambda: watch.id is not None)
    proxy.reset()
    assert isinstance(updates.get(timeout=WAIT_S), EtcdUnavailable)
    assert updates.get(timeout=WAIT_S) == []
    delete(far, kv.key)
    far.watches.remove(watch)


def test_waits_one_after_the_other_share_a_stream(
    etcd: Etcd, client: Client, stranger: Session, name: str, monkeypatch: Patch
) -> None:
    """It is ended when nothing was watched for a while, or when the session is closed."""
    with connect(etcd.endpoint) as waiters:
        endpoint = waiters.endpoints[0].watch
        streams = Mock(side_effect=endpoint.Watch)
        monkeypatch.setattr(endpoint, "Watch", streams)
        before = lock_threads().count("lock-watch")

        def wait_once(session: Session) -> None:
            hold = Mutex(stranger, name).acquire(timeout=WAIT_S)
            waiting = queue_up(client, Mutex(session, name))
            hold.release()
            waiting.result(WAIT_S).release()

        with Session(waiters, ttl=600) as session:
            for _ in range(3):
                wait_once(session)
            assert streams.call_count == 1
            waiters.watches.idle_s = 0.1
            wait_once(session)
            wait_until(lambda: lock_threads().count("lock-watch") == before)
            waiters.watches.idle_s = 600.0
            wait_once(session)
            assert lock_threads().count("lock-watch") == before + 1
        wait_until(lambda: lock_threads().count("lock-watch") == before)


def test_a_watch_that_is_closed_leaves_nothing(fresh_etcd: Etcd) -> None:
    """At once, when its stream may not be open yet, or later: etcd watches no more, and no thread is left."""
    before = set(threading.enumerate())
    with connect(fresh_etcd.endpoint) as client:
        for _ in range(10):
            Changes(client, "watches/early/").close()
        changes, other = Changes(client, "watches/left/"), Changes(client, "watches/stays/")
        assert changes.next() == other.next() == []
        wait_until(lambda: metric(fresh_etcd, "etcd_debugging_mvcc_watcher_total") == 2)
        client.watches.remove(changes._watch)
        wait_until(lambda: metric(fresh_etcd, "etcd_debugging_mvcc_watcher_total") == 1)
        other.close()
        wait_until(lambda: set(threading.enumerate()) <= before)
