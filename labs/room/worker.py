"""gunicorn's threaded worker, which gives a request to a thread when all of it is there.

gunicorn reads a request and sends its answer in a thread. A client that sends the first half of many, or reads no
answer, would have all of them, and the other phones would wait. Here half a request waits in the loop for a few
seconds, an answer has a moment to leave, and one address has a bound of connections and of threads.
"""

from __future__ import annotations

import errno
import re
import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from gunicorn.workers.gthread import TConn, ThreadWorker  # type: ignore[import-untyped]

from labs.room.bounds import client_of

MOST_OF_ONE_ADDRESS = 600  # connections; a whole room may stand behind one address, and browsers keep two or more
MOST_THREADS_OF_ONE_ADDRESS = 300  # 132 are left for others
LARGEST_HEAD, LARGEST_BODY = 8192, 4096  # bytes
PATIENCE_S = 4.0  # for the rest of a request, and for a thread
SEND_S = 1.5  # for all of an answer
LOOK_S = 0.1
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,9})[ \t]*(?=\r\n)", re.IGNORECASE)
_CHUNKS = re.compile(rb"\r\n(transfer-encoding|expect):", re.IGNORECASE)


class RoomConnection(TConn):  # type: ignore[misc]
    """A connection that tells its end.

    Attributes:
        address: of the client; empty for the board.
        received: bytes of half a request that were there when it was looked at.
        in_thread: whether its request has a thread.
    """

    address: str = ""
    received: int = 0
    in_thread: bool = False
    closed: Callable[[], object]

    def close(self, graceful: bool = False) -> None:
        """Close at once: gunicorn would wait for the client in its loop. A whole request leaves nothing unread."""
        self.closed()
        super().close()


class RoomWorker(ThreadWorker):  # type: ignore[misc]
    """The worker of the room."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._of_address: Counter[str] = Counter()
        self._threads_of: Counter[str] = Counter()
        self._halves: dict[RoomConnection, float] = {}  # connections with half a request, and until when
        self._in_line: dict[RoomConnection, float] = {}  # those whose address has no thread left, and until when
        self._looked_at = 0.0

    def accept(self, listener: socket.socket) -> None:
        """Take a connection, and wait for its first request without a thread."""
        try:
            sock, client = listener.accept()
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                raise
            return
        address = client_of(client[0]) if isinstance(client, tuple) else ""
        if address and self._of_address[address] >= MOST_OF_ONE_ADDRESS:
            sock.close()
            return
        connection = RoomConnection(self.cfg, sock, client, listener.getsockname())
        connection.address, connection.closed = address, partial(self._closed, address)
        self._of_address[address] += 1
        self.nr_conns += 1
        connection.timeout = time.monotonic() + self.cfg.keepalive
        self.pending_conns.append(connection)
        self.poller.register(sock, selectors.EVENT_READ, partial(self.on_pending_socket_readable, connection))

    def enqueue_req(self, conn: RoomConnection) -> None:
        """Give a whole request to a thread; half of one waits, and one that is never whole ends its connection."""
        if not conn.address:
            self._give_thread(conn)  # the board sends what it has begun, and a socket file knows no SO_RCVLOWAT
            return
        if conn.parser and conn.parser.unreader.buf.getvalue():
            self._end(conn)  # what follows without waiting for the answer does not come from the page
            return
        received = _peek(conn.sock)  # not before: behind an answer the socket would wait for as long as for a send
        if received is None or (is_whole := _is_whole(received)) is None:
            self._end(conn)
        elif is_whole:
            self._give_thread(conn)
        elif conn.received == len(received):
            self._end(conn)  # no more came with the wake-up: the client has stopped sending
        else:
            self._wait_for_more(conn, len(received))

    def handle_request(self, req: Any, conn: RoomConnection) -> Any:
        """Let all of an answer take `SEND_S`: a client that does not read ends its connection."""
        conn.sock.settimeout(SEND_S)  # of a `sendall`, however many pieces it takes
        try:
            return super().handle_request(req, conn)
        except TimeoutError:
            raise StopIteration from None  # which gunicorn takes for the end of a connection

    def finish_request(self, conn: RoomConnection, fs: Any) -> None:
        """Take the thread back, and give it to the next request of that address."""
        conn.in_thread = False
        self._threads_of[conn.address] -= 1
        super().finish_request(conn, fs)
        following = next((each for each in self._in_line if each.address == conn.address), None)
        if following:
            del self._in_line[following]
            self._give_thread(following)

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        waits = self._halves or self._in_line
        super().wait_for_and_dispatch_events(min(timeout, LOOK_S) if waits else timeout)
        if time.monotonic() - self._looked_at >= LOOK_S:
            self._end_late_ones()

    def _give_thread(self, conn: RoomConnection) -> None:
        if conn.address and self._threads_of[conn.address] >= MOST_THREADS_OF_ONE_ADDRESS:
            self._in_line[conn] = time.monotonic() + PATIENCE_S
            return
        conn.received, conn.in_thread = 0, True
        self._threads_of[conn.address] += 1
        super().enqueue_req(conn)

    def _wait_for_more(self, conn: RoomConnection, received: int) -> None:
        """Wake up when there is more than that, or the client has left."""
        self._halves.setdefault(conn, time.monotonic() + PATIENCE_S)
        conn.received = received
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, received + 1)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._more, conn))

    def _more(self, conn: RoomConnection, sock: socket.socket) -> None:
        self.poller.unregister(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self.enqueue_req(conn)
        if conn.in_thread or conn in self._in_line:
            self._halves.pop(conn, None)

    def _end_late_ones(self) -> None:
        now = self._looked_at = time.monotonic()
        for conn in [conn for conn, until in self._halves.items() if now > until]:
            self.poller.unregister(conn.sock)
            self._end(conn)
        for conn in [conn for conn, until in self._in_line.items() if now > until]:
            self._end(conn)

    def _end(self, conn: RoomConnection) -> None:
        self._halves.pop(conn, None)
        self._in_line.pop(conn, None)
        self.nr_conns -= 1
        conn.close()

    def _closed(self, address: str) -> None:
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]


def _peek(sock: socket.socket) -> bytes | None:
    """What has arrived; `None` if the client has left."""
    try:
        return sock.recv(LARGEST_HEAD + LARGEST_BODY, socket.MSG_PEEK | socket.MSG_DONTWAIT) or None
    except BlockingIOError:
        return b""
    except OSError:
        return None


def _is_whole(received: bytes) -> bool | None:
    """Whether this is a whole request; `None` if it is too large."""
    head, end, body = received.partition(b"\r\n\r\n")
    if len(head) > LARGEST_HEAD or _CHUNKS.search(head + end):
        return None
    length = _LENGTH.search(head + end)
    expected = int(length[1]) if length else 0
    return None if expected > LARGEST_BODY else bool(end) and len(body) >= expected
