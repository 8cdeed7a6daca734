"""The threads of gunicorn's worker: start them all, count the requests that run, and those that wait for a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class RequestCount:
    """WSGI middleware around `app` that counts the requests that run: `in_hand`."""

    def __init__(self, app: WSGIApplication) -> None:
        self.in_hand = 0
        self._app = app
        self._counting = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        with self._counting:
            self.in_hand += 1
        try:
            return self._app(environ, start_response)
        finally:
            with self._counting:
                self.in_hand -= 1


def start_all(pool: ThreadPoolExecutor, threads: int) -> None:
    """Start all threads of the pool now: in a rush, each start would delay the requests in progress."""
    all_there = threading.Barrier(threads + 1)
    for _ in range(threads):
        pool.submit(all_there.wait)
    all_there.wait()


def queued(pool: ThreadPoolExecutor) -> int:
    """How many requests wait for a thread."""
    return pool._work_queue.qsize()
