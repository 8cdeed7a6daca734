"""A TCP proxy that executes a request and loses its answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType


class LossyProxy:
    """Stands between a client and the server at `port`; the next request that contains `marker` gets no answer.

    Use it as a context manager. Requests of this size arrive in one piece on loopback.
    """

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._marker: bytes | None = None
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = [self._listener]

    def lose_answer_to(self, marker: bytes) -> None:
        """Pass the next request on that contains `marker`, wait for its answer, and hang up without it."""
        self._marker = marker

    def __enter__(self) -> LossyProxy:
        self._run(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in list(self._sockets):
            _hang_up(each)
        for thread in list(self._threads):
            thread.join()

    def _run(self, work, *arguments) -> None:  # type: ignore[no-untyped-def]
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            self._sockets += [client, server]
            self._run(self._serve, client, server)

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while request := client.recv(65536):
                server.sendall(request)
                answer = server.recv(65536)
                if self._marker is not None and self._marker in request:
                    self._marker = None
                    break
                client.sendall(answer)
        _hang_up(client)
        _hang_up(server)


def _hang_up(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
