"""Buyers for measurements: as many connections as buyers, driven by one thread without any framework.

Locust's buyers cost several times the CPU time of these, all in one thread, which would hide what the guards differ in.
The clicks and answers are the same as in the rush.
"""

from __future__ import annotations

import gc
import resource
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from click import ClickException

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
    """One buyer's connection; clicks one at a time. It `waits` for an answer; `open`, it can be used again."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._url, self._host = url, parts.netloc
        self.sock = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=PATIENCE_S)
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.waits, self.open = False, True

    def send(self, click: Click, due: float | None = None) -> None:
        """Click, or make up for a click that was due before; it is small enough never to block."""
        self._buyer, self._sent, self._data, self._length, self.waits = click.buyer, due or time.time(), b"", 0, True
        head = f"{click.method} {click.path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Length: 0\r\n\r\n"
        self.sock.sendall(head.encode())

    def read(self) -> Reply | None:
        """Take what has come; a reply if that ends a wait: it is complete, or nothing more will come."""
        try:
            data = self.sock.recv(_LARGEST_READ)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        self.open = self.open and bool(data)
        if not self.waits:
            return None
        self._data += data
        if not self._length and b"\r\n\r\n" in self._data:
            head = self._data.partition(b"\r\n\r\n")[0].lower()
            length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
            self._length = len(head) + 4 + int(length or 0)
            self.open = self.open and b"connection: close" not in head
        self.waits = bool(data) and not 0 < self._length <= len(self._data)
        return None if self.waits else Reply(self._url, self._buyer, self._sent, time.time(), self._data)


class ClientPool:
    """Buyers that take `urls` in turn. Use it as a context manager, in which nothing stops to collect garbage."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = urls
        self._selector = selectors.DefaultSelector()
        self._connections: list[BuyerConnection] = []

    def __enter__(self) -> ClientPool:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(_MOST_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        gc.collect()
        gc.disable()
        return self

    def __exit__(self, *exc_info: object) -> None:
        gc.enable()
        for connection in self._connections:
            connection.sock.close()
        self._selector.close()

    def connect(self, buyers: int) -> None:
        """Let `buyers` connect; each has asked for something, so that the server has its connection in hand."""
        while len(self._connections) < buyers:
            wave = [self._connect() for _ in range(min(_WAVE, buyers - len(self._connections)))]
            for connection in wave:
                connection.send(Click("", "/livez", "GET"))
            for _ in self._answered(len(wave)):
                pass

    def _connect(self) -> BuyerConnection:
        connection = BuyerConnection(self._urls[len(self._connections) % len(self._urls)])
        self._selector.register(connection.sock, selectors.EVENT_READ, connection)
        self._connections.append(connection)
        return connection

    def loop(self, clicks: Sequence[Click]) -> list[Answer]:
        """A closed loop: each connection clicks again once it is answered; raises Unanswered.

        With as many connections as clicks it is a burst: all click at once.
        """
        waiting, replies = iter(clicks), []
        for connection, click in zip(self._connections, waiting, strict=False):
            connection.send(click)
        for connection, reply in self._answered(len(clicks)):
            replies.append(reply)
            if following := next(waiting, None):
                connection.send(following)
        return [reply.answer() for reply in replies]

    def stream(self, clicks: Sequence[Click], *, rate: float) -> list[Answer]:
        """An open load: `rate` clicks per second whether or not the earlier ones are answered.

        A click that finds no free connection opens one. Times count from when the click was due, so a generator that
        falls behind shows as waiting. Raises Unanswered.
        """
        replies: list[Reply] = []
        free = list(self._connections)
        total, clicked, began = len(clicks), 0, time.time()
        while len(replies) < total:
            due = min(int((time.time() - began) * rate) + 1, total)
            for number in range(clicked, due):
                self._one_of(free).send(clicks[number], began + number / rate)
            clicked = max(clicked, due)
            if time.time() > began + total / rate + PATIENCE_S:
                raise Unanswered(f"{total - len(replies)} of {total} clicks had no answer {PATIENCE_S:g} s later")
            wait_s = max(began + clicked / rate - time.time(), 0) if clicked < total else 1.0
            for connection, reply in self._ready(wait_s):
                replies.append(reply)
                free.append(connection)
        return [reply.answer() for reply in replies]

    def _one_of(self, free: list[BuyerConnection]) -> BuyerConnection:
        """Taken out of `free`, or a new one; those that the server has closed meanwhile are dropped."""
        while free:
            if (connection := free.pop()).open:
                return connection
        return self._connect()

    def _answered(self, count: int) -> Iterator[tuple[BuyerConnection, Reply]]:
        """Connections with their replies, as they come, until there are `count`."""
        deadline = time.monotonic() + PATIENCE_S
        while count > 0:
            if time.monotonic() > deadline:
                raise Unanswered(f"{count} buyers had no answer within {PATIENCE_S:g} s")
            for each in self._ready(1.0):
                count -= 1
                yield each

    def _ready(self, timeout: float) -> Iterator[tuple[BuyerConnection, Reply]]:
        for key, _ in self._selector.select(timeout):
            connection: BuyerConnection = key.data
            reply = connection.read()
            if not connection.open and not connection.waits:
                self._selector.unregister(connection.sock)
            if reply:
                yield connection, reply
