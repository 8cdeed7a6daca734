"""The proxy fails as networks do, one direction or both, and passes everything on otherwise."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from loadtest.ports import LOOPBACK
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
