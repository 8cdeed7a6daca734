"""A TCP proxy that fails the way networks do: it delays, stalls, swallows, resets and refuses.

    with Proxy(etcd.endpoint) as proxy:
        client = connect(proxy.endpoint)
        proxy.stall()      # a partition: nothing arrives, nothing is refused
        proxy.resume()     # it heals: what was under way arrives late
        proxy.blackhole()  # a dropped NAT entry: existing connections stay silent, new ones work
        proxy.reset()      # connections that exist are reset, new ones are fine
        proxy.refuse()     # the port is closed
        proxy.hold_matching(b"x")  # a request with these bytes stays here, and all behind it on its connection

A stall can be given one direction, `REQUESTS` or `ANSWERS`: a request may arrive and its answer be lost.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from loadtest.ports import LOOPBACK, free_port
from loadtest.stack.process import Resource

REQUESTS = "requests"
ANSWERS = "answers"
BOTH = (REQUESTS, ANSWERS)

_CHUNK = 65536
_CONNECT_S = 5.0


class Proxy(Resource):
    """Listens on a free port of the loopback interface and forwards to `target`, ``HOST:PORT``."""

    def __init__(self, target: str) -> None:
        host, _, target_port = target.rpartition(":")
        self._target = (host, int(target_port))
        self.port = free_port()
        self.delay_s = 0.0  # how long each piece of data is kept back
        self.jitter_s = 0.0  # and how much longer at most
        self.random = Random()  # not the common one, which tests seed to repeat something else
        self._stalled: set[str] = set()
        self._held_request: bytes | None = None
        self._pipes: list[_Pipe] = []
        self._listener: socket.socket | None = None
        self.lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """Listen; also again after `refuse`."""
        if self._listener is not None:
            return
        self._listener = socket.create_server((LOOPBACK, self.port))
        threading.Thread(target=self._accept, args=(self._listener,), name="proxy", daemon=True).start()

    def stall(self, *directions: str) -> None:
        """Pass on nothing in these directions (both, if none is given), until `resume`."""
        with self.lock:
            self._stalled.update(directions or BOTH)

    def hold_matching(self, request: bytes) -> None:
        """Pass on no request that contains this, until `resume`."""
        with self.lock:
            self._held_request = request

    def resume(self) -> None:
        """Pass everything on again, what was kept back first."""
        with self.lock:
            self._stalled.clear()
            self._held_request = None
            for pipe in self._pipes:
                pipe.news.notify()

    def held_back(self, direction: str) -> bytes:
        """What has arrived in this direction and is not passed on yet."""
        with self.lock:
            return b"".join(piece.data for pipe in self._pipes if pipe.direction == direction for piece in pipe.held)

    def deliver(self, direction: str, *, through: bytes) -> bool:
        """Pass on what is held back in this direction, up to the piece that contains `through`, and nothing after it.

        False, and nothing is passed on, if no such piece has arrived.
        """
        with self.lock:
            for pipe in self._pipes:
                for number, piece in enumerate(pipe.held, 1):
                    if pipe.direction == direction and through in piece.data:
                        pipe.may_pass = number
                        pipe.news.notify()
                        return True
        return False

    def blackhole(self) -> None:
        """Never again pass on anything of the connections that exist, without closing them."""
        with self.lock:
            for pipe in self._pipes:
                pipe.blackholed = True

    def reset(self) -> None:
        """Break the connections that exist (TCP RST)."""
        with self.lock:
            pipes, self._pipes = self._pipes, []
            for pipe in pipes:
                pipe.ended = True
                pipe.news.notify()
        for pipe in pipes:
            pipe.close(abruptly=True)

    def refuse(self) -> None:
        """Listen no more, and break the connections that exist, until `start`."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
            self._listener.close()
            self._listener = None
        self.reset()

    def stop(self) -> None:
        self.refuse()

    def keeps(self, direction: str, data: bytes) -> bool:
        """Whether this is not passed on; to be called with `lock` held."""
        matches = direction == REQUESTS and self._held_request is not None and self._held_request in data
        return matches or direction in self._stalled

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            try:
                server = socket.create_connection(self._target, timeout=_CONNECT_S)
            except OSError:
                _close(client, abruptly=True)
                continue
            self._join(listener, client, server)

    def _join(self, listener: socket.socket, client: socket.socket, server: socket.socket) -> None:
        for end in (client, server):
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pipes = [_Pipe(self, REQUESTS, client, server), _Pipe(self, ANSWERS, server, client)]
        with self.lock:
            is_refused = self._listener is not listener  # while it was being connected
            if not is_refused:
                self._pipes = [pipe for pipe in self._pipes if not pipe.ended] + pipes
        if is_refused:
            pipes[0].close(abruptly=True)
            return
        for pipe in pipes:
            for half in (pipe.read, pipe.write):
                threading.Thread(target=half, name=f"proxy {pipe.direction}", daemon=True).start()


def _of_each(name: str) -> Callable[..., None]:
    """A method that calls the one of this name of each proxy."""

    def act(lines: Lines, *args: Any) -> None:
        for line in lines:
            getattr(line, name)(*args)

    return act


class Lines(tuple[Proxy, ...]):
    """Several proxies that fail together; see `Proxy`."""

    __slots__ = ()
    start, resume, reset, refuse = map(_of_each, ("start", "resume", "reset", "refuse"))
    stall, hold_matching = map(_of_each, ("stall", "hold_matching"))

    def slow_down(self, delay_s: float, jitter_s: float) -> None:
        """Keep each piece of data back for so many seconds, and at most so many more; 0 and 0 end it."""
        for line in self:
            line.delay_s, line.jitter_s = delay_s, jitter_s

    def held_back(self, direction: str) -> bytes:
        """What has arrived in this direction on any of them and is not passed on yet."""
        return b"".join(line.held_back(direction) for line in self)


class _Piece(NamedTuple):
    data: bytes
    due: float  # not passed on before


class _Pipe:
    """One direction of one connection."""

    def __init__(self, proxy: Proxy, direction: str, source: socket.socket, sink: socket.socket) -> None:
        self.direction = direction
        self.held: deque[_Piece] = deque()  # an empty one at the end
        self.blackholed = False
        self.ended = False
        self.news = threading.Condition(proxy.lock)  # for the thread that writes
        self.may_pass = 0  # pieces, even if this direction is stalled
        self._proxy = proxy
        self._source = source
        self._sink = sink

    def read(self) -> None:
        data = b"not the end"
        while data:
            try:
                data = self._source.recv(_CHUNK)
            except OSError:
                data = b""
            delay = self._proxy.delay_s + self._proxy.random.uniform(0, self._proxy.jitter_s)
            with self._proxy.lock:
                self.held.append(_Piece(data, time.monotonic() + delay))
                self.news.notify()

    def write(self) -> None:
        """Pass on what may pass, then the end: a stalled network keeps back the news of a closed connection, too."""
        with contextlib.suppress(OSError):
            while data := self._next():
                self._sink.sendall(data)
        if not self.ended:
            self.ended = True
            self.close(abruptly=False)

    def _next(self) -> bytes:
        with self._proxy.lock:
            self.news.wait_for(lambda: self.ended or self._passes())
            if self.ended:
                return b""
            self.may_pass = max(self.may_pass - 1, 0)
            piece = self.held.popleft()
        time.sleep(max(piece.due - time.monotonic(), 0.0))
        return piece.data

    def _passes(self) -> bool:
        if not self.held:
            return False
        return self.may_pass > 0 or not (self.blackholed or self._proxy.keeps(self.direction, self.held[0].data))

    def close(self, *, abruptly: bool) -> None:
        """Close both ends; may be called again."""
        _close(self._source, abruptly=abruptly)
        _close(self._sink, abruptly=abruptly)


def _close(end: socket.socket, *, abruptly: bool) -> None:
    with contextlib.suppress(OSError):
        if abruptly:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # Also wakes a recv() in the other thread, which would keep the connection open.
        end.shutdown(socket.SHUT_RD if abruptly else socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        end.close()
