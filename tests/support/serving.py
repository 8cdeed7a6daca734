"""A TCP server that does with each connection what a test wants."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer


class Server(ThreadingTCPServer):
    """Waits for no thread at the end."""

    daemon_threads = True
    request_queue_size = 64

    @property
    def endpoint(self) -> str:
        """HOST:PORT."""
        return f"127.0.0.1:{self.server_address[1]}"


@contextmanager
def serving(answer: Callable[[socket.socket, bytes], None]) -> Iterator[Server]:
    """A server that hands `answer` each connection with each piece of data that comes over it."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                while data := self.request.recv(65536):
                    answer(self.request, data)

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
