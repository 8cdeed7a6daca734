"""gunicorn's threaded worker, which also knows how many requests wait for one of its threads, and since when."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from gunicorn.workers.gthread import TConn  # type: ignore[import-untyped]

from app.arrival import arrived_at
from app.server.sockets import PatientWorker

_PEEK = 4096  # bytes; a browser's click has less than half of it
_BODY = re.compile(rb"\r\n(?:content-length|transfer-encoding):([^\r]*)", re.IGNORECASE)


class CountingPool(ThreadPoolExecutor):
    """Counts what it has in hand.

    Attributes:
        threads: how many jobs it works on at once.
        busy: jobs that a thread works on.
        queued: jobs that wait for a thread.
    """

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.threads = threads
        self.busy = 0
        self.queued = 0
        self._counting = threading.Lock()
        self._start_all()

    def _start_all(self) -> None:
        """Start all threads now: in a rush, each start would delay the requests that are being worked on."""
        all_there = threading.Barrier(self.threads + 1)
        for _ in range(self.threads):
            super().submit(all_there.wait)
        all_there.wait()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._count(queued=1)
        return super().submit(self._work, fn, args, kwargs)

    def _work(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        self._count(queued=-1, busy=1)
        try:
            return fn(*args, **kwargs)
        finally:
            self._count(busy=-1)

    def _count(self, *, queued: int = 0, busy: int = 0) -> None:
        with self._counting:
            self.queued += queued
            self.busy += busy


class CountingWorker(PatientWorker):
    """The worker whose thread pool counts, and which knows when a request came that found its connection open.

    What was sent behind another request is not seen when it comes: when it arrived is unknown.
    """

    tpool: CountingPool

    def get_thread_pool(self) -> CountingPool:
        return CountingPool(self.cfg.threads)

    def on_client_socket_readable(self, conn: TConn, client: Any) -> None:
        conn.arrived = time.monotonic() if self._whole_request_waits(client) else None
        super().on_client_socket_readable(conn, client)

    def _whole_request_waits(self, client: socket.socket) -> bool:
        if self.cfg.is_ssl:  # nobody can look into it from here
            return False
        try:
            return is_whole_request(client.recv(_PEEK, socket.MSG_PEEK))
        except OSError:
            return False

    def handle_request(self, req: Any, conn: TConn) -> Any:
        moment, conn.arrived = getattr(conn, "arrived", None), None
        with arrived_at(moment):
            return super().handle_request(req, conn)


def is_whole_request(data: bytes) -> bool:
    """Whether it begins with a request that has no body, or an empty one, and all of that request is there.

    What comes before a request (an empty line may) or of it (half a head, a head without its body) is no sign that
    anybody has asked for anything.
    """
    head, end, _ = data.partition(b"\r\n\r\n")
    return bool(end) and all(length.strip() == b"0" for length in _BODY.findall(head))
