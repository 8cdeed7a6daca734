"""gunicorn's threaded worker, which gives a request to a thread when all of it is there.

gunicorn reads a request in a thread. A client that sends the first half of many would have all of them, and the other
phones would wait. Here half a request waits in the loop for a few seconds, and one address has a bound of connections.
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

MOST_OF_ONE_ADDRESS = 600  # connections; a whole room may stand behind one address, and browsers keep two or more
LARGEST_HEAD, LARGEST_BODY = 8192, 4096  # bytes
PATIENCE_S = 4.0  # for the rest of a request
LOOK_S = 0.1
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,9})[ \t]*(?=\r\n)", re.IGNORECASE)
_CHUNKS = re.compile(rb"\r\n(transfer-encoding|expect):", re.IGNORECASE)


class Connection(TConn):  # type: ignore[misc]
    """A connection that tells its end."""

    closed: Callable[[], object]

    def close(self, graceful: bool = False) -> None:
        self.closed()
        super().close(graceful)


class RoomWorker(ThreadWorker):  # type: ignore[misc]
    """The worker of the room."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._of_address: Counter[str] = Counter()
        self._halves: dict[Connection, float] = {}  # connections with half a request, and until when
        self._looked_at = 0.0

    def accept(self, listener: socket.socket) -> None:
        """Take a connection, and wait for its first request without a thread."""
        try:
            sock, client = listener.accept()
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                raise
            return
        address = client[0] if isinstance(client, tuple) else ""
        if address and self._of_address[address] >= MOST_OF_ONE_ADDRESS:
            sock.close()
            return
        connection = Connection(self.cfg, sock, client, listener.getsockname())
        connection.closed = partial(self._closed, address)
        self._of_address[address] += 1
        self.nr_conns += 1
        connection.timeout = time.monotonic() + self.cfg.keepalive
        self.pending_conns.append(connection)
        self.poller.register(sock, selectors.EVENT_READ, partial(self.on_pending_socket_readable, connection))

    def enqueue_req(self, conn: Connection) -> None:
        """Give a whole request to a thread; half of one waits, and one that is never whole ends its connection."""
        if conn.parser and conn.parser.unreader.buf.getvalue():
            self._end(conn)  # what follows without waiting for the answer does not come from the page
        elif (is_whole := _is_whole(conn.sock)) is None:
            self._end(conn)
        elif is_whole:
            super().enqueue_req(conn)
        else:
            self._halves[conn] = time.monotonic() + PATIENCE_S

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        super().wait_for_and_dispatch_events(min(timeout, LOOK_S) if self._halves else timeout)
        if time.monotonic() - self._looked_at >= LOOK_S:
            self._look_at_halves()

    def _look_at_halves(self) -> None:
        now = self._looked_at = time.monotonic()
        for conn, until in list(self._halves.items()):
            is_whole = _is_whole(conn.sock)
            if is_whole or is_whole is None or now > until:
                del self._halves[conn]
                if is_whole:
                    super().enqueue_req(conn)
                else:
                    self._end(conn)

    def _end(self, conn: Connection) -> None:
        self.nr_conns -= 1
        conn.close()

    def _closed(self, address: str) -> None:
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]


def _is_whole(sock: socket.socket) -> bool | None:
    """Whether a whole request has arrived; None if it is too large, or the client has left."""
    try:
        received = sock.recv(LARGEST_HEAD + LARGEST_BODY, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return None
    head, end, body = received.partition(b"\r\n\r\n")
    if not received or len(head) > LARGEST_HEAD or _CHUNKS.search(head + end):
        return None
    length = _LENGTH.search(head + end)
    expected = int(length[1]) if length else 0
    return None if expected > LARGEST_BODY else bool(end) and len(body) >= expected
