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
from contextlib import contextmanager
from dataclasses import dataclass
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

    def encode(self, host: str) -> bytes:
        return f"{self.method} {self.path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n".encode()


class Unanswered(ClickException):
    """Not every buyer got an answer in time."""


@dataclass(eq=False)
class BuyerConnection:
    """One buyer's connection; clicks one at a time.

    Attributes:
        waits: whether an answer is due.
        open: whether it can be used again.
    """

    url: str
    host: str
    sock: socket.socket
    waits: bool = False
    open: bool = True
    buyer: str = ""
    sent: float = 0.0
    received: bytes = b""
    due: int = 0  # bytes of the answer, once its head is there

    def send(self, data: bytes, buyer: str, at: float) -> None:
        """Send a request that was due at `at`; it is small enough never to block."""
        self.buyer, self.sent, self.received, self.due, self.waits = buyer, at, b"", 0, True
        self.sock.sendall(data)

    def read(self) -> bool:
        """Take what has come; whether that ends a wait: the answer is complete, or nothing more will come."""
        try:
            data = self.sock.recv(_LARGEST_READ)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self.received += data
        if not self.due and b"\r\n\r\n" in self.received:
            head = self.received.partition(b"\r\n\r\n")[0].lower()
            length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
            self.due = len(head) + 4 + int(length or 0)
            self.open = b"connection: close" not in head
        self.open = self.open and bool(data)
        ends = self.waits and (not data or 0 < self.due <= len(self.received))
        self.waits = self.waits and not ends
        return ends

    def answer(self, at: float) -> Answer:
        head, _, body = self.received.partition(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1]) if head.startswith(b"HTTP/") else 0
        return Answer.read(self.buyer, self.url, status, body or None, sent=self.sent, received=at)


class ClientPool:
    """Buyers that take `urls` in turn. Use it as a context manager; one thread drives it."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = urls
        self._selector = selectors.DefaultSelector()
        self._connections: list[BuyerConnection] = []

    def __enter__(self) -> ClientPool:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(_MOST_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        return self

    def __exit__(self, *exc_info: object) -> None:
        for connection in self._connections:
            connection.sock.close()
        self._selector.close()

    def connect(self, buyers: int) -> None:
        """Let `buyers` connect; each has asked for something, so that the server has its connection in hand."""
        while len(self._connections) < buyers:
            wave = [self._connect() for _ in range(min(_WAVE, buyers - len(self._connections)))]
            for connection in wave:
                connection.send(Click("", "/livez", "GET").encode(connection.host), "", time.time())
            for _ in self._answered(len(wave)):
                pass

    def _connect(self) -> BuyerConnection:
        url = self._urls[len(self._connections) % len(self._urls)]
        parts = urlsplit(url)
        sock = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=PATIENCE_S)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = BuyerConnection(url, parts.netloc, sock)
        self._selector.register(sock, selectors.EVENT_READ, connection)
        self._connections.append(connection)
        return connection

    def burst(self, clicks: Sequence[Click]) -> list[Answer]:
        """All clicks at once, each on its own connection, which is open before; raises Unanswered."""
        connections = self._connections[: len(clicks)]
        requests = [click.encode(connection.host) for click, connection in zip(clicks, connections, strict=True)]
        for click, connection, request in zip(clicks, connections, requests, strict=True):
            connection.send(request, click.buyer, time.time())
        ended = [(connection, time.time()) for connection in self._answered(len(clicks))]
        return [connection.answer(at) for connection, at in ended]

    def loop(self, clicks: Sequence[Click]) -> list[Answer]:
        """A closed loop: each connection clicks again once it is answered; raises Unanswered."""
        waiting, answers = iter(clicks), []
        for connection, click in zip(self._connections, waiting, strict=False):
            connection.send(click.encode(connection.host), click.buyer, time.time())
        for connection in self._answered(len(clicks)):
            answers.append(connection.answer(time.time()))
            if following := next(waiting, None):
                connection.send(following.encode(connection.host), following.buyer, time.time())
        return answers

    def stream(self, clicks: Sequence[Click], *, rate: float) -> list[Answer]:
        """An open load: `rate` clicks per second whether or not the earlier ones are answered.

        A click that finds no free connection opens one. Times count from when the click was due, so a generator that
        falls behind shows as waiting. Raises Unanswered.
        """
        answers: list[Answer] = []
        free = list(self._connections)
        total = len(clicks)
        began = time.time()
        clicked = 0
        while len(answers) < total:
            due = min(int((time.time() - began) * rate) + 1, total)
            for number in range(clicked, due):
                connection = self._one_of(free)
                click = clicks[number]
                connection.send(click.encode(connection.host), click.buyer, began + number / rate)
            clicked = max(clicked, due)
            if time.time() > began + total / rate + PATIENCE_S:
                raise Unanswered(f"{total - len(answers)} of {total} clicks had no answer {PATIENCE_S:g} s later")
            for connection in self._ready(max(began + clicked / rate - time.time(), 0) if clicked < total else 1.0):
                answers.append(connection.answer(time.time()))
                free.append(connection)
        return answers

    def _one_of(self, free: list[BuyerConnection]) -> BuyerConnection:
        """Taken out of `free`, or a new one; those that the server has closed meanwhile are dropped."""
        while free:
            if (connection := free.pop()).open:
                return connection
        return self._connect()

    def _answered(self, count: int) -> Iterator[BuyerConnection]:
        """Connections whose answer is complete, as they become so, until there are `count`."""
        deadline = time.monotonic() + PATIENCE_S
        while count > 0:
            if time.monotonic() > deadline:
                raise Unanswered(f"{count} buyers had no answer within {PATIENCE_S:g} s")
            for connection in self._ready(1.0):
                count -= 1
                yield connection

    def _ready(self, timeout: float) -> Iterator[BuyerConnection]:
        for key, _ in self._selector.select(timeout):
            connection: BuyerConnection = key.data
            ends = connection.read()
            if not connection.open and not connection.waits:
                self._selector.unregister(connection.sock)
            if ends:
                yield connection


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Collect no garbage meanwhile: for code that makes many lasting objects, or must not be held up."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
