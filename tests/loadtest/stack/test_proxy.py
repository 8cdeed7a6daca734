"""The proxy fails as networks do, one direction or both, and passes everything on otherwise."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from loadtest.ports import LOOPBACK, free_port
from loadtest.stack.proxy import REQUESTS, Proxy
from tests.support.serving import serving
from tests.support.waiting import wait_until


class Echo:
    """Sends back what it gets, and remembers it."""

    def __init__(self) -> None:
        self.got = b""

    def __call__(self, connection: socket.socket, data: bytes) -> None:
        self.got += data
        connection.sendall(data)


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    """A proxy in front of a server that sends back what it gets."""
    with serving(echo) as server, Proxy(server.endpoint) as proxy:
        yield proxy


def dial(proxy: Proxy) -> socket.socket:
    return socket.create_connection((LOOPBACK, proxy.port), timeout=20)


def ask(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return connection.recv(100)


def test_a_trap_keeps_one_request_back(proxy: Proxy, echo: Echo) -> None:
    """And what follows it on its connection; others pass, and with `resume` it is delivered."""
    proxy.hold_matching(b"late")
    with dial(proxy) as trapped, dial(proxy) as other:
        trapped.sendall(b"too late")
        wait_until(lambda: proxy.held_back(REQUESTS) == b"too late")
        assert ask(other, b"other") == b"other"
        assert echo.got == b"other"
        proxy.resume()
        assert trapped.recv(100) == b"too late"


def test_a_forgotten_connection_stays_silent(proxy: Proxy) -> None:
    """Old connections are dead and do not know it; new ones work."""
    with dial(proxy) as old:
        assert ask(old, b"one") == b"one"
        proxy.blackhole()
        old.sendall(b"two")
        with dial(proxy) as new:
            assert ask(new, b"three") == b"three"
        wait_until(lambda: proxy.held_back(REQUESTS) == b"two")


def test_a_target_that_refuses_is_refused_here_too() -> None:
    """Without its target, the proxy breaks every new connection."""
    with Proxy(f"{LOOPBACK}:{free_port()}") as proxy, pytest.raises(ConnectionError), dial(proxy) as connection:
        connection.recv(100)


def test_jitter_slows_each_piece_by_a_time_of_its_own(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each direction is kept back by the delay, and on top by a random time up to the jitter."""
    monkeypatch.setattr(proxy.random, "uniform", lambda least, most: least + most)
    proxy.delay_s, proxy.jitter_s = 0.05, 0.1
    with dial(proxy) as connection:
        before = time.monotonic()
        assert ask(connection, b"slow") == b"slow"
        assert time.monotonic() - before >= 0.3


def test_a_connection_that_is_being_made_is_refused_as_well(
    echo: Echo, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that was accepted, and not yet passed on, is refused too."""
    connect, accepted, refused = socket.create_connection, threading.Event(), threading.Event()

    def connect_late(address: tuple[str, int], **options: Any) -> socket.socket:
        if address == proxy._target:
            accepted.set()
            assert refused.wait(10)
        return connect(address, **options)

    monkeypatch.setattr(socket, "create_connection", connect_late)
    with dial(proxy) as connection:
        assert accepted.wait(10)
        proxy.refuse()
        refused.set()
        with contextlib.suppress(ConnectionError):
            assert ask(connection, b"hello") == b""
    assert echo.got == b""
