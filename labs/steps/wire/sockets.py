"""Python's sockets. What goes to Redis or to etcd's gateway stops before it leaves, and waits for its answer.

The answer stays in the socket, which is only peeked at: whoever sent the command reads it as ever.
"""

from __future__ import annotations

import _socket
import select
import socket
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from labs.steps.wire import TO_ETCD, TO_REDIS, Fate, Stepped, end_if_killed, wire, words, writing
from labs.steps.wire.resp import Commands, answer_in, commands_in, message_in

ANSWER_S = 5.0
FIRST, MOST = 1 << 16, 1 << 24  # bytes that are peeked at
_send, _recv, _sendall, _sendmsg = (
    _socket.socket.send, _socket.socket.recv, _socket.socket.sendall, getattr(_socket.socket, "sendmsg", None),
)  # fmt: skip
_links: WeakKeyDictionary[socket.socket, _Link] = WeakKeyDictionary()


@cache
def wrap() -> None:
    """Have all sockets tell what they send."""

    def sendall(self: socket.socket, data: Any, *flags: Any) -> None:
        if (link := _link_of(self)) is None:
            return _sendall(self, data, *flags)
        if (stepped := wire.owner()) is None:
            _sendall(self, data, *flags)
            link.count(memoryview(data).nbytes)
            return None
        return link.write(stepped, bytes(data))

    def send(self: socket.socket, data: Any, *flags: Any) -> int:
        if (link := _link_of(self)) is None:
            return _send(self, data, *flags)
        if (stepped := wire.owner()) is None:
            size = _send(self, data, *flags)
            link.count(size)
            return size
        link.write(stepped, bytes(data))
        return memoryview(data).nbytes

    def sendmsg(self: socket.socket, buffers: Any, *more: Any) -> int:
        if _link_of(self) is None:
            assert _sendmsg is not None
            return int(_sendmsg(self, buffers, *more))
        return send(self, b"".join(buffers))

    socket.socket.sendall, socket.socket.send = sendall, send  # type: ignore[method-assign, assignment]
    if _sendmsg is not None:
        socket.socket.sendmsg = sendmsg  # type: ignore[method-assign, assignment]


def _link_of(sock: socket.socket) -> _Link | None:
    """What is known of a socket to one of the servers."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    link = _links.get(sock)
    if link is None:
        try:
            _, port, *_ = sock.getpeername()
        except OSError:
            return None
        kind = _ToRedis if port in wire.redis else _ToEtcd if port in wire.etcd else _Elsewhere
        link = _links[sock] = kind(sock, port)
    if isinstance(link, _Elsewhere):
        if wire.owner() is not None:
            wire.others.add(f"port {link.port}")
        return None
    return link


class _Link:
    """A connection to a server, and what was given to it and has not left yet."""

    def __init__(self, sock: socket.socket, port: int) -> None:
        self._sock, self.port = sock, port
        self._pending = b""

    def write(self, stepped: Stepped, data: bytes) -> None:
        raise NotImplementedError

    def count(self, size: int) -> None:
        raise NotImplementedError

    def _send(self, data: bytes) -> None:
        self.count(len(data))  # first: this process may be killed
        left = memoryview(data)
        while left:
            self._poll(select.POLLOUT, ANSWER_S)
            left = left[_send(self._sock, left) :]

    def _peek(self) -> bytes:
        """What has come and was not read."""
        return self._come() if self._poll(select.POLLIN, 0) else b""

    def _poll(self, event: int, timeout_s: float) -> bool:
        """Whether that is possible within so many seconds, whatever the timeout of the socket."""
        poll = select.poll()
        poll.register(self._sock.fileno(), event)
        return bool(poll.poll(timeout_s * 1000))

    def _come(self) -> bytes:
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
                data = self._come()
                if not data or (found := whole(data)) is not None:
                    return found if data else None
        return None

    def _lose(self) -> None:
        """What has come is lost, and the connection has ended."""
        while self._peek():
            _recv(self._sock, FIRST, socket.MSG_DONTWAIT)
        self._sock.shutdown(socket.SHUT_RDWR)

    def _end_with(self, fate: Fate, stepped: Stepped) -> bool:
        """Whether the answer is lost; a process that is to die does so."""
        if fate is Fate.ANSWERED:
            return False
        end_if_killed(fate)
        self._lose()
        self._pending = b""
        stepped.answered("lost")
        return True


class _Elsewhere(_Link):
    """To another server."""


class _ToRedis(_Link):
    _open: Sequence[list[str]] = ()  # commands of a transaction that is sent one by one

    def count(self, size: int) -> None:
        wire.sent[TO_REDIS] += size

    def write(self, stepped: Stepped, data: bytes) -> None:
        commands, self._pending = commands_in(self._pending + data)
        for each in commands:
            if not self._exchange(stepped, each):
                return

    def _exchange(self, stepped: Stepped, commands: Commands) -> bool:
        """Send them once that is their turn; whether their answer came."""
        if each := self._gathered(commands):
            with stepped.exchange():
                return self._stepped(stepped, commands, each)
        before = len(self._peek())
        self._send(commands.packed)
        return self._answers(len(commands.words), before) is not None

    def _gathered(self, commands: Commands) -> list[list[str]]:
        """What is done now: nothing by the commands of a transaction before its last one."""
        if commands.is_of_the_connection:
            return []
        if commands.is_open or self._open:
            self._open = [*self._open, *commands.words]
            if self._open[-1][0].upper() not in ("EXEC", "DISCARD"):
                return []
            gathered, self._open = list(self._open), ()
            return gathered
        return commands.words

    def _stepped(self, stepped: Stepped, commands: Commands, done: list[list[str]]) -> bool:
        writes, bounded = not words.only_reads(done), commands.bounded()
        while True:
            shown, whole, keys = words.of_redis(done), words.whole(done), words.keys_in_redis(done)
            fate = stepped.sending(shown, whole=whole, writes=writes, keys=keys)
            before = len(self._peek())
            self._send(bounded or (commands.long_lived(wire.life_ms) if wire.life_ms else commands.packed))
            answers = self._answers(len(commands.words), before)
            if answers and len(done) == 1 and str(answers[0][0]) == "NOSCRIPT":
                stepped.not_done(fate)
                return True
            if done[0][0].upper() == "WATCH":
                stepped.watching.add(self._sock.getsockname()[1])
            if self._end_with(fate, stepped):
                return False
            for answer, _ in answers or [(ConnectionError("no answer"), 0)]:
                stepped.answered(words.answer_of_redis(done, answer))
            if bounded is None or before or not answers or answers[0][0] is not None:
                return answers is not None
            _recv(self._sock, answers[0][1])  # it would have waited on
            stepped.pauses()

    def _answers(self, number: int, begin: int) -> list[tuple[Any, int]] | None:
        """So many answers behind the first `begin` bytes, each with where it ends."""

        def whole(data: bytes) -> list[tuple[Any, int]] | None:
            found: list[tuple[Any, int]] = []
            at = begin
            while len(found) < number and (each := answer_in(data, at)):
                found.append(each)
                at = each[1]
            return found if len(found) == number else None

        found: list[tuple[Any, int]] | None = self._await(whole)
        return found


class _ToEtcd(_Link):
    def count(self, size: int) -> None:
        """etcd counts requests."""

    def write(self, stepped: Stepped, data: bytes) -> None:
        self._pending += data
        if self._pending.startswith(b"PRI "):
            wire.others.add("etcd by HTTP/2")
            self._send(self._pending)
            self._pending = b""
        while message := message_in(self._pending):
            first, body, size = message
            request, self._pending = self._pending[:size], self._pending[size:]
            _, path, *_ = first.decode(errors="replace").split(" ")
            if not self._exchange(stepped, path.partition("?")[0], body, request):
                return

    def _exchange(self, stepped: Stepped, path: str, body: bytes, request: bytes) -> bool:
        writes = words.etcd_writes(path)
        with stepped.exchange():
            fate = stepped.sending(
                words.of_http(path, body), whole=f"{path} {body!r}", writes=writes, keys=words.keys_in_http(body)
            )
            wire.sent[TO_ETCD] += path.startswith(("/v3/", "/v3beta/"))
            with writing(writes):
                self._send(request)
                answer: tuple[bytes, bytes, int] | None = self._await(message_in)
            if self._end_with(fate, stepped):
                return False
            stepped.answered(words.answer_of_http(answer[1]) if answer else "(no answer)")
            return answer is not None
