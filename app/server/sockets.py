"""gunicorn's threaded worker as shop and board use it: no client can keep a thread by doing little, and whoever sends
what is no request is answered as everybody else.
"""

from __future__ import annotations

import errno
import math
import selectors
import socket
import struct
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from gunicorn import util  # type: ignore[import-untyped]
from gunicorn.http.errors import (  # type: ignore[import-untyped]
    ExpectationFailed,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
    UnsupportedTransferCoding,
)
from gunicorn.workers.gthread import TConn, ThreadWorker  # type: ignore[import-untyped]

from app.web.responses import problem

if TYPE_CHECKING:
    from typing_extensions import Self

RECEIVE_TIMEOUT_S = 5
REQUEST_TIMEOUT_S = 20
SEND_TIMEOUT_S = 20
LINGER_S = 2
AT_ONCE = 65536  # bytes that one call sends: it may last as long as any of them are taken
STATUS = {LimitRequestLine: 414, LimitRequestHeaders: 431, ExpectationFailed: 417, UnsupportedTransferCoding: 501}
ADVICE = {
    414: "The address is too long: send parameters as the members of a JSON body.",
    431: "The headers are too long, or too many: send fewer and shorter ones.",
}


class ClientSocket(socket.socket):
    """The connection to a client that has a request under way: who stops sending or reading in it has hung up.

    The limits of a single call are the operating system's, because gunicorn sets Python's own anew. A connection that
    is kept alive and idle is not received from, so they do not concern it.

    Attributes:
        until: when the request that is under way has to be here, in seconds of `time.monotonic`.
    """

    until = math.inf

    @classmethod
    def of(cls, accepted: socket.socket) -> Self:
        """Take over a connection; `accepted` is of no use afterwards."""
        own = cls(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", RECEIVE_TIMEOUT_S, 0))
        own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", SEND_TIMEOUT_S, 0))
        return own

    def recv(self, *args: Any) -> bytes:
        try:
            if time.monotonic() < self.until:
                return super().recv(*args)
        except BlockingIOError:
            if not self.getblocking():
                raise
        self.shutdown(socket.SHUT_RD)  # or whoever closes it would wait for more to come
        return b""

    def sendall(self, data: Any, *flags: int) -> None:
        """Send all of it, as long as the client takes it: who does not read, or reads in drips, has hung up, too."""
        left, until = memoryview(data), time.monotonic() + SEND_TIMEOUT_S
        with suppress(BlockingIOError):
            while left and time.monotonic() < until:
                left = left[self.send(left[:AT_ONCE], *flags) :]
        if left:
            raise BrokenPipeError(errno.EPIPE, "the client does not read its answer")

    def finish(self) -> None:
        """Let the client read its answer and hang up; a connection that is closed before may lose the answer."""
        until = time.monotonic() + LINGER_S
        with suppress(OSError):
            self.shutdown(socket.SHUT_WR)
            while (left := until - time.monotonic()) > 0:
                self.settimeout(left)
                if not self.recv(4096):
                    break
        with suppress(OSError):
            self.shutdown(socket.SHUT_RD)


class PatientWorker(ThreadWorker):  # type: ignore[misc]
    """Loses no thread to a client that stops sending, reading or hanging up, and answers every error as a problem."""

    def enqueue_req(self, conn: TConn) -> None:
        if type(conn.sock) is socket.socket:
            self._await_first_request(conn)
        else:
            super().enqueue_req(conn)

    def _await_first_request(self, conn: TConn) -> None:
        """A new connection is one that is kept alive: it gets a thread when something is asked on it."""
        conn.sock = ClientSocket.of(conn.sock)
        conn.sock.setblocking(False)
        conn.data_ready = True  # by the time that a thread has it
        conn.set_timeout()
        self.keepalived_conns.append(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.on_client_socket_readable, conn))

    def murder_keepalived(self, force: bool = False) -> None:
        """Hang up on whoever is idle for too long, and, where no room is left for others, on who is so for longest."""
        if self.nr_conns >= self.worker_connections and self.keepalived_conns:
            self.keepalived_conns[0].timeout = -math.inf
        super().murder_keepalived(force)

    def handle(self, conn: TConn) -> Any:
        client = conn.sock
        client.until = time.monotonic() + REQUEST_TIMEOUT_S
        goes_on = super().handle(conn)
        client.until = math.inf
        if not goes_on and isinstance(conn.sock, ClientSocket):
            conn.sock.finish()  # here, because the main thread would wait for one client after the other
        return goes_on

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: BaseException) -> None:
        """Answer what did not come as far as the application, or went wrong outside of it."""
        if isinstance(exc, ParseException):
            self.log.warning("No request from %s: %s", addr, exc)
            status = STATUS.get(type(exc), 400)
            detail = ADVICE.get(status, f"That is no request that can be answered: {exc}.")
        else:
            self.log.exception("Error handling request")
            status, detail = 500, "That is a defect of the server: the log of this instance says more."
        try:
            util.write_nonblock(client, self._problem(status, detail))
        except OSError as error:
            self.log.debug("Nobody waits for the answer: %s", error)

    def _problem(self, status: int, detail: str) -> bytes:
        with self.wsgi.app_context():
            response = problem(status, detail)
        response.headers["Connection"] = "close"
        head = f"HTTP/1.1 {response.status}\r\n{response.headers}"
        return head.encode("latin-1") + response.get_data()
