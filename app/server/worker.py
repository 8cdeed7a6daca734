"""gunicorn's threaded worker, with a thread pool that counts its jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]


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
        self._start_all()

    def _start_all(self) -> None:
        """Start all threads now: in a rush, each start would delay the requests in progress."""
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


class CountingWorker(ThreadWorker):  # type: ignore[misc]
    """The worker whose thread pool counts."""

    tpool: CountingPool

    def get_thread_pool(self) -> CountingPool:
        return CountingPool(self.cfg.threads)
