"""Python's sockets. What goes to Redis or to etcd's gateway stops before it leaves, and waits for its answer.

The answer stays in the socket, which is only peeked at: whoever sent the command reads it as ever.
"""

from __future__ import annotations

import _socket
import json
import select
import socket
import time
from collections.abc import Callable, Sequence
from email import message_from_bytes
from functools import cache
from http.client import HTTPResponse, IncompleteRead
from io import BytesIO
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from labs.steps.wire import TO_ETCD, TO_REDIS, Fate, end_if_killed, etcd, wire, words
from labs.steps.wire.resp import Commands, Cutter, answers_in

if TYPE_CHECKING:
    from labs.steps.stepped import SteppedPurchase

ANSWER_S = 5.0
FOREVER_S = 600.0
LONG_S = 1.0  # a wait for a message that is shorter is a pause before another try
FIRST, MOST = 1 << 16, 1 << 24  # bytes that are peeked at
_send, _recv = _socket.socket.send, _socket.socket.recv
_poll, _select = select.poll, select.select
_links: WeakKeyDictionary[socket.socket, _Link] = WeakKeyDictionary()


@cache
def wrap() -> None:
    """Have all sockets tell what they send, and for what they wait."""
    for name in ("send", "sendall", "sendmsg"):
        if hasattr(_socket.socket, name):
            setattr(socket.socket, name, _sending(getattr(_socket.socket, name)))
    for name in ("recv", "recv_into"):
        setattr(socket.socket, name, _receiving(getattr(_socket.socket, name)))
    select.poll, select.select = _Poll, _selecting  # type: ignore[assignment,misc]


def _sending(real: Callable[..., Any]) -> Callable[..., Any]:
    def send(sock: socket.socket, data: Any, *more: Any) -> Any:
        link = _link_of(sock)
        if link is None:
            return real(sock, data, *more)
        whole = b"".join(data) if isinstance(data, (list, tuple)) else bytes(data)
        if (stepped := wire.owner()) is None:
            link.count(len(whole))  # first: this process may be killed
            size = real(sock, data, *more)
            link.count(0 if size is None else size - len(whole))
            return size
        link.write(stepped, whole)
        return None if real.__name__ == "sendall" else len(whole)

    return send


def _receiving(real: Callable[..., Any]) -> Callable[..., Any]:
    def receive(sock: socket.socket, *args: Any) -> Any:
        if isinstance(link := _links.get(sock), _ToRedis) and wire.life_ms and wire.owner() is not None:
            link.await_message(sock.gettimeout())
        return real(sock, *args)

    return receive


class _Poll:
    """`select.poll`, with which redis-py looks for a message."""

    def __init__(self) -> None:
        self._real = _poll()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def poll(self, timeout: float | None = None) -> Any:
        return _waited(self._real.poll, timeout, 1000)


def _selecting(rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None) -> Any:
    return _waited(lambda timeout: _select(rlist, wlist, xlist, timeout), timeout, 1)


def _waited(wait: Callable[[float | None], Any], timeout: float | None, second: float) -> Any:
    """What a wait finds; of a purchase, a short one is a pause before another try, and a long one has no end."""
    if timeout is not None and timeout > 0 and wire.life_ms and wire.owner() is not None:
        if timeout >= LONG_S * second:
            return wait(FOREVER_S * second)
        found = wait(0)
        if found and any(found):
            return found
        time.sleep(timeout / second)
        return wait(0)
    return wait(timeout)


def is_message_there() -> bool:
    """Whether something has come from Redis that was not read yet."""
    return any(isinstance(link, _ToRedis) and link.has_come() for link in list(_links.values()))


def _link_of(sock: socket.socket) -> _Link | None:
    """What is known of a socket to one of the servers; that to another one is noted."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    if sock not in _links:
        try:
            _, port, *_ = sock.getpeername()
        except OSError:
            return None
        kind = _ToRedis if port in wire.redis else _ToEtcd if port in wire.etcd else _Link
        _links[sock] = kind(sock, port)
    link = _links[sock]
    if type(link) is not _Link:
        return link
    if wire.owner() is not None:
        wire.others.add(f"port {link.port}")
    return None


class _Link:
    """A connection, and what was given to it and has not left yet."""

    def __init__(self, sock: socket.socket, port: int) -> None:
        self._sock, self.port = sock, port

    def write(self, stepped: SteppedPurchase, data: bytes) -> None:
        raise NotImplementedError

    def count(self, size: int) -> None:
        """Note what was sent, as the server counts it."""

    def has_come(self) -> bool:
        """Whether something was not read yet."""
        return self._sock.fileno() >= 0 and self._poll(select.POLLIN, 0)

    def _send(self, data: bytes) -> None:
        self.count(len(data))
        left = memoryview(data)
        while left:
            self._poll(select.POLLOUT, ANSWER_S)
            left = left[_send(self._sock, left) :]

    def _poll(self, event: int, timeout_s: float) -> bool:
        """Whether that is possible within so many seconds, whatever the timeout of the socket."""
        poll = _poll()
        poll.register(self._sock.fileno(), event)
        return bool(poll.poll(timeout_s * 1000))

    def _peek(self) -> bytes:
        """What has come and was not read."""
        if not self.has_come():
            return b""
        size, data = FIRST, _recv(self._sock, FIRST, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        while len(data) == size < MOST:
            size *= 16
            data = _recv(self._sock, size, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        return data

    def _await(self, whole: Callable[[bytes], Any]) -> Any:
        """What `whole` makes of all that has come, once it is there; None if the connection ends or is silent."""
        until = time.clock_gettime(time.CLOCK_MONOTONIC) + ANSWER_S
        while time.clock_gettime(time.CLOCK_MONOTONIC) < until:
            if self._poll(select.POLLIN, 0.1):
                data = self._peek()
                if not data or (found := whole(data)) is not None:
                    return found if data else None
        return None

    def _end_with(self, fate: Fate, stepped: SteppedPurchase) -> bool:
        """Whether the answer is lost, and with it the connection; a process that is to die does so."""
        if fate is Fate.ANSWERED:
            return False
        end_if_killed(fate)
        while self._peek():
            _recv(self._sock, FIRST, socket.MSG_DONTWAIT)
        self._sock.shutdown(socket.SHUT_RDWR)
        stepped.answered("lost")
        return True


class _ToRedis(_Link):
    def __init__(self, sock: socket.socket, port: int) -> None:
        super().__init__(sock, port)
        self._cutter = Cutter()
        self._open: Sequence[list[str]] = ()  # commands of a transaction that is sent one by one

    def count(self, size: int) -> None:
        wire.sent[TO_REDIS] += size

    def await_message(self, timeout_s: float | None) -> None:
        """Wait for a message that another purchase publishes; a short wait is a pause, and a long one has no end."""
        if timeout_s is None or timeout_s >= LONG_S:
            self._poll(select.POLLIN, FOREVER_S)
        elif timeout_s and not self.has_come():
            time.sleep(timeout_s)
            if not self.has_come():
                raise TimeoutError("timed out")

    def write(self, stepped: SteppedPurchase, data: bytes) -> None:
        for each in self._cutter.cut(data):
            if not self._exchange(stepped, each):
                return

    def _exchange(self, stepped: SteppedPurchase, commands: Commands) -> bool:
        """Send them once that is their turn; whether their answer came."""
        if any(map(words.looks_at_clock, commands.words)):
            wire.others.add("the clock of Redis, which a pause does not move: use time.time(), or keys that expire")
        if done := self._gathered(commands):
            with stepped.exchange():
                return self._stepped(stepped, commands, done)
        before = len(self._peek())
        self._send(commands.packed())
        return self._answers(commands, before) is not None

    def _gathered(self, commands: Commands) -> list[list[str]]:
        """What is done now: nothing by the commands of a transaction before its last one."""
        if commands.is_of_the_connection:
            return []
        if not (commands.is_open or self._open):
            return commands.words
        self._open = [*self._open, *commands.words]
        if self._open[-1][0].upper() not in ("EXEC", "DISCARD"):
            return []
        gathered, self._open = list(self._open), ()
        return gathered

    def _stepped(self, stepped: SteppedPurchase, commands: Commands, done: list[list[str]]) -> bool:
        writes, bounded = not words.only_reads(done), commands.bounded()
        while True:
            fate = stepped.sending(words.told(done), whole=words.whole(done), writes=writes)
            before = len(self._peek())
            self._send(bounded or commands.packed(wire.life_ms))
            answers = self._answers(commands, before)
            if answers and len(done) == 1 and str(answers[0]) == "NOSCRIPT":
                stepped.not_done(fate)
                return True
            if done[0][0].upper() == "WATCH":
                stepped.watching.add(self._sock.getsockname()[1])
            if self._end_with(fate, stepped):
                return False
            for answer in answers or [ConnectionError("no answer")]:
                stepped.answered(words.answer(done, answer))
            if bounded is None or before or not answers or answers[0] is not None:
                return answers is not None
            _recv(self._sock, len(self._peek()))  # it would have waited on
            stepped.pauses()

    def _answers(self, commands: Commands, begin: int) -> list[Any] | None:
        """Those that come behind the first `begin` bytes."""
        found: list[Any] | None = self._await(lambda data: answers_in(data[begin:], len(commands.words)))
        return found


class _ToEtcd(_Link):
    """HTTP to the gateway. etcd counts requests, and no bytes."""

    _pending = b""

    def write(self, stepped: SteppedPurchase, data: bytes) -> None:
        self._pending += data
        if self._pending.startswith(b"PRI "):
            wire.others.add("etcd by HTTP/2")
            self._send(self._pending)
            self._pending = b""
        while request := _request_in(self._pending):
            path, body, size = request
            sent, self._pending = self._pending[:size], self._pending[size:]
            if not self._exchange(stepped, path, body, sent):
                self._pending = b""

    def _exchange(self, stepped: SteppedPurchase, path: str, body: Any, sent: bytes) -> bool:
        method, request = etcd.method_of(path), etcd.of_json(body)
        with stepped.exchange():
            fate = stepped.sending(etcd.told(method, request), writes=etcd.writes(method))
            wire.sent[TO_ETCD] += path.startswith(("/v3/", "/v3beta/"))
            self._send(sent)
            answer = self._await(_answer_in)
            if self._end_with(fate, stepped):
                return False
            header = answer.get("header", {}) if answer else {}
            said = etcd.answer(method, etcd.of_json(answer), header.get("revision")) if answer else "(no answer)"
            stepped.answered(said)
            return answer is not None


def _request_in(data: bytes) -> tuple[str, Any, int] | None:
    """Path and body of the HTTP request that begins here, and its size; None if it is not whole."""
    head, end, rest = data.partition(b"\r\n\r\n")
    first, _, fields = head.partition(b"\r\n")
    length = int(message_from_bytes(fields)["content-length"] or 0)
    if not end or len(rest) < length:
        return None
    return first.decode().split(" ")[1].partition("?")[0], _json_of(rest[:length]), len(head) + len(end) + length


def _answer_in(data: bytes) -> Any:
    """The body of the HTTP response that has come; None if it is not whole."""
    response = HTTPResponse(_Come(data))  # type: ignore[arg-type]
    try:
        if b"\r\n\r\n" in data:
            response.begin()
            return _json_of(response.read())
    except IncompleteRead:
        pass
    return None


class _Come(BytesIO):
    def makefile(self, _: str) -> _Come:
        return self


def _json_of(body: bytes) -> Any:
    try:
        found = json.loads(body or b"{}")
    except ValueError:
        found = body.decode(errors="replace")
    return found if isinstance(found, dict) else {"told": found}
