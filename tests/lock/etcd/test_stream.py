"""Streams of answers end, and leave nothing of gRPC's behind that could keep the interpreter from ending."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from loadtest.stack.proxy import Proxy
from loadtest.stack.servers import Etcd
from lock import Client, EtcdError, EtcdUnavailable, connect
from lock.etcd.stream import Watch
from tests.support.lock import WAIT_S, metric
from tests.support.waiting import Patch, assert_raises, in_thread, wait_until


class Calls:
    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.made: list[weakref.ref[Any]] = []

    def __call__(self, *args: Any, **options: Any) -> Any:
        call = self._method(*args, **options)
        self.made.append(weakref.ref(call))
        return call

    def are_gone(self) -> bool:
        return bool(self.made) and not any(call() for call in self.made)


class Ended:
    """A stream that ends before it has answered."""

    cancel = staticmethod(lambda: None)

    def __iter__(self) -> Ended:
        return self

    def __next__(self) -> NoReturn:
        raise StopIteration


def read(watch: Watch, stands: threading.Event) -> None:
    """Until it ends, in whatever way."""
    with contextlib.suppress(EtcdError):
        for _ in watch:
            stands.set()


@pytest.mark.parametrize("ends", [lambda watch, _: watch.close(), lambda _, proxy: proxy.reset()], ids=["close", "cut"])
@pytest.mark.usefixtures("no_garbage_collector")
def test_the_call_of_a_watch_goes_with_it(
    far: Client, proxy: Proxy, monkeypatch: Patch, ends: Callable[[Watch, Proxy], None]
) -> None:
    """Its deletion takes a lock of gRPC's threads, which hangs where it is left for the end of the interpreter."""
    endpoint = far.endpoints[0].watch
    calls = Calls(endpoint.Watch)
    monkeypatch.setattr(endpoint, "Watch", calls)
    watch, stands = far.watch("stream/call/"), threading.Event()
    reading = in_thread(read, watch, stands)
    assert stands.wait(WAIT_S)
    assert not calls.are_gone()
    ends(watch, proxy)
    reading.result(WAIT_S)
    wait_until(calls.are_gone)


@pytest.mark.usefixtures("no_garbage_collector")
def test_the_call_of_a_failed_renewal_goes_with_it(far: Client, proxy: Proxy, monkeypatch: Patch) -> None:
    """It is a stream as well, and its own error."""
    endpoint = far.endpoints[0].lease
    calls = Calls(endpoint.LeaseKeepAlive)
    monkeypatch.setattr(endpoint, "LeaseKeepAlive", calls)
    proxy.stall()
    with contextlib.suppress(EtcdUnavailable):
        far.keep_alive(1, timeout=0.2)
    wait_until(calls.are_gone)


def test_a_watch_that_is_read_no_more_ends(fresh_etcd: Etcd) -> None:
    """Where its reader leaves the loop, etcd watches no more, and no thread is left here."""
    before = set(threading.enumerate())
    with connect(fresh_etcd.endpoint) as client:
        for _ in client.watch("stream/left/"):
            assert metric(fresh_etcd, "etcd_debugging_mvcc_watcher_total") == 1
            break
        wait_until(lambda: metric(fresh_etcd, "etcd_debugging_mvcc_watcher_total") == 0)
        wait_until(lambda: set(threading.enumerate()) <= before)


def test_a_watch_that_ends_without_an_error_is_an_error(client: Client, monkeypatch: Patch) -> None:
    """Something between us and etcd may end it so: its reader lists again after a pause, and does not spin."""
    monkeypatch.setattr(client.endpoints[0].watch, "Watch", lambda *_, **__: Ended())
    assert_raises(EtcdUnavailable, list, client.watch("stream/ended/"), match="ended the stream")


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
