"""Buyers for measurements: as many connections as buyers, each with a greenlet of one thread, without any framework.

Locust's buyers cost several times the CPU time of these, all in one thread, which would hide what the guards differ in.
The clicks and answers are the same as in the rush.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import gevent
from click import ClickException
from gevent import socket

from loadtest.results.answer import Answer

PATIENCE_S = 180.0  # of buyers; redis-lock keeps some waiting long, and a slow machine longer
_WAVE = 200  # connections opened at once: fewer than any server's backlog
_LARGEST_READ = 65536
_MOST_FILES = 16384


class Click(NamedTuple):
    """What one buyer sends."""

    buyer: str
    path: str
    method: str = "POST"


class Reply(NamedTuple):
    """What has come for a click, by the clock of the buyer; read once nobody waits any more."""

    url: str
    buyer: str
    sent: float
    received: float
    data: bytes

    def answer(self) -> Answer:
        head, _, body = self.data.partition(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1]) if head.startswith(b"HTTP/") else 0
        return Answer.read(self.buyer, self.url, status, body or None, sent=self.sent, received=self.received)


class Unanswered(ClickException):
    """Not every buyer got an answer in time."""


class BuyerConnection:
    """One buyer's connection, which is opened anew if the server has closed it; clicks one at a time."""

    def __init__(self, url: str) -> None:
        self._url, self._parts = url, urlsplit(url)
        self._sock: Any = None

    def click(self, click: Click, due: float | None = None) -> Reply:
        """Click, or make up for a click that was due before; return when all is there, or nothing more will come."""
        sent, data = due or time.time(), b""
        head = f"{click.method} {click.path} HTTP/1.1\r\nHost: {self._parts.netloc}\r\nContent-Length: 0\r\n\r\n"
        with suppress(OSError):
            if self._sock is None:
                self._sock = socket.create_connection((self._parts.hostname, self._parts.port or 80))
                self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sock.sendall(head.encode())
            while not _is_whole(data):
                if not (more := self._sock.recv(_LARGEST_READ)):
                    break
                data += more
        if not _is_whole(data) or b"\r\nconnection: close\r\n" in data.lower():
            self.close()
        return Reply(self._url, click.buyer, sent, time.time(), data)

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None


def _is_whole(data: bytes) -> bool:
    head, end, body = data.partition(b"\r\n\r\n")
    length = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
    return bool(end) and len(body) >= int(length or 0)


class ClientPool:
    """Buyers that take `urls` in turn. Use it as a context manager, in which nothing stops to collect garbage."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = urls
        self._connections: list[BuyerConnection] = []

    def __enter__(self) -> ClientPool:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(_MOST_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        gevent.get_hub().exception_stream = None  # errors are raised, and the command tells of an interrupt
        gc.collect()
        gc.disable()
        return self

    def __exit__(self, *exc_info: object) -> None:
        gc.enable()
        for connection in self._connections:
            connection.close()

    def connect(self, buyers: int) -> None:
        """Let `buyers` connect; each has asked for something, so that the server has its connection in hand."""
        while len(self._connections) < buyers:
            wave = [self._another() for _ in range(min(_WAVE, buyers - len(self._connections)))]
            _await([gevent.spawn(connection.click, Click("", "/livez", "GET")) for connection in wave])

    def _another(self) -> BuyerConnection:
        connection = BuyerConnection(self._urls[len(self._connections) % len(self._urls)])
        self._connections.append(connection)
        return connection

    def loop(self, clicks: Sequence[Click]) -> list[Answer]:
        """A closed loop: each connection clicks again once it is answered; raises Unanswered.

        With as many connections as clicks it is a burst: all click at once.
        """
        waiting, replies = iter(clicks), list[Reply]()

        def buy(connection: BuyerConnection) -> None:
            for click in waiting:
                replies.append(connection.click(click))

        _await([gevent.spawn(buy, connection) for connection in self._connections])
        return [reply.answer() for reply in replies]

    def stream(self, clicks: Sequence[Click], *, rate: float) -> list[Answer]:
        """An open load: `rate` clicks per second whether or not the earlier ones are answered.

        A click that finds no free connection opens one. Times count from when the click was due, so a generator that
        falls behind shows as waiting. Raises Unanswered.
        """
        free, replies, began = list(self._connections), list[Reply](), time.time()

        def buy(click: Click, due: float) -> None:
            connection = free.pop() if free else self._another()
            replies.append(connection.click(click, due))
            free.append(connection)

        buyers = []
        for number, click in enumerate(clicks):
            gevent.sleep(max(began + number / rate - time.time(), 0))
            buyers.append(gevent.spawn(buy, click, began + number / rate))
        _await(buyers)
        return [reply.answer() for reply in replies]


def _await(buyers: Sequence[Any]) -> None:
    """Wait until all are answered; raises Unanswered."""
    gevent.joinall(buyers, timeout=PATIENCE_S, raise_error=True)
    if waiting := [each for each in buyers if not each.dead]:
        gevent.killall(waiting)
        raise Unanswered(f"{len(waiting)} buyers had no answer within {PATIENCE_S:g} s")
