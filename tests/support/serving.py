"""Servers that do with each connection, or answer to each request, what a test wants."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler, TCPServer, ThreadingTCPServer


class Server(ThreadingTCPServer):
    """Waits for no thread at the end."""

    daemon_threads = True
    request_queue_size = 64

    @property
    def endpoint(self) -> str:
        """HOST:PORT."""
        return f"127.0.0.1:{self.server_address[1]}"


@contextmanager
def _running(server: TCPServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


@contextmanager
def serving(answer: Callable[[socket.socket, bytes], None]) -> Iterator[Server]:
    """A TCP server that hands `answer` each connection with each piece of data that comes over it."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                while data := self.request.recv(65536):
                    answer(self.request, data)

    with Server(("127.0.0.1", 0), Handler) as server, _running(server):
        yield server


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler, bytes], object]) -> Iterator[str]:
    """The URL of a web server that says what `answer` returns for each request and its body: bytes, or any JSON."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said = answer(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))
            text = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            with suppress(OSError):  # who asked waits no longer
                self.end_headers()
                self.wfile.write(text)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, _running(server):
        yield f"http://127.0.0.1:{server.server_port}"
