"""gunicorn's threaded worker, with a thread pool that counts, and a bound on the requests it has in hand.

gunicorn queues requests for which no thread is free. Beyond a set length, the worker refuses purchases by itself.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from gunicorn.workers.gthread import TConn, ThreadWorker  # type: ignore[import-untyped]

_LARGEST = 8192  # bytes of a request that is answered without a thread


class CountingPool(ThreadPoolExecutor):
    """A thread pool that counts its jobs.

    Attributes:
        threads: the most jobs at once.
        busy: jobs in a thread.
        queued: jobs that wait for a thread.
    """

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.threads = threads
        self.busy = 0
        self.queued = 0
        self._counting = threading.Lock()
        # Start all threads now: in a rush, each start would delay the requests in progress.
        all_there = threading.Barrier(threads + 1)
        for _ in range(threads):
            super().submit(all_there.wait)
        all_there.wait()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with self._counting:
            self.queued += 1
        return super().submit(self._work, partial(fn, *args, **kwargs))

    def _work(self, job: Callable[[], Any]) -> Any:
        with self._counting:
            self.queued -= 1
            self.busy += 1
        try:
            return job()
        finally:
            with self._counting:
                self.busy -= 1


class CountingWorker(ThreadWorker):  # type: ignore[misc]
    """The worker whose thread pool counts.

    Attributes:
        queue: requests in hand, in a thread or waiting for one, from which on it refuses others.
        refusal: makes the bytes that refuse a request; None if it has to be served all the same.
    """

    tpool: CountingPool
    queue: int
    refusal: Callable[[bytes], bytes | None]

    def get_thread_pool(self) -> CountingPool:
        return CountingPool(self.cfg.threads)

    def enqueue_req(self, conn: TConn) -> None:
        """Give the request to the thread pool, unless it is refused or has not arrived yet."""
        if self.tpool.busy + self.tpool.queued < self.queue or not self._refuse(conn):
            super().enqueue_req(conn)

    def _refuse(self, conn: TConn) -> bool:
        if conn.parser and conn.parser.unreader.buf.getvalue():
            return False  # what is in the socket is not the beginning of a request
        try:
            received = conn.sock.recv(_LARGEST, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            if not (refusal := self.refusal(received)):
                return False
            conn.sock.recv(len(received))  # or the client sees a reset connection instead of the answer
            conn.sock.send(refusal)
        except BlockingIOError:  # wait for the request as gunicorn does where a thread has waited in vain
            conn.timeout = time.monotonic() + self.cfg.keepalive
            self.pending_conns.append(conn)
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.on_pending_socket_readable, conn))
            return True
        except OSError:
            pass  # the client has left
        self.nr_conns -= 1
        conn.close()
        return True
