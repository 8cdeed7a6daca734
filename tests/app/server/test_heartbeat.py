"""What a worker tells of itself in a file, as the board reads it."""

from __future__ import annotations

import itertools
import os
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from app.board.sources.heartbeats import HeartbeatReader
from app.server.heartbeat import Heartbeat
from app.server.worker import CountingPool
from tests.support.waiting import wait_until


def test_the_board_sees_what_workers_do(tmp_path: Path) -> None:
    """Busy threads, queued jobs and outcomes while all threads are busy, and idle; also of two with one process id."""
    directory, me = tmp_path / "reports" / "section-log", os.getpid()  # does not exist yet
    sold, go_on, reader = itertools.count(100), threading.Event(), HeartbeatReader(directory)

    def seen() -> list[tuple[object, ...]]:
        return [(worker.instance, worker.pid, worker.threads, worker.busy, worker.queued) for worker in reader.read()]

    with ExitStack() as started:
        pool = started.enter_context(CountingPool(2))
        for instance, outcomes in {"shop/a": lambda: {"sold": next(sold)}, "shop-b": lambda: {"busy": 200}}.items():
            heartbeat = Heartbeat(directory, instance, pool=pool, outcomes=outcomes)
            heartbeat.start()
            started.enter_context(closing(heartbeat))
        try:
            jobs = [pool.submit(go_on.wait) for _ in range(102)]  # enough for the line to get shorter afterwards
            wait_until(lambda: seen() == [("shop/a", me, 2, 2, 100), ("shop-b", me, 2, 2, 100)])
        finally:
            go_on.set()
        assert all(job.result(30) for job in jobs)
        assert isinstance(pool.submit(int, "x").exception(30), ValueError)
        wait_until(lambda: seen() == [("shop/a", me, 2, 0, 0), ("shop-b", me, 2, 0, 0)])
        wait_until(lambda: seen() and reader.outcomes["sold"])
        assert reader.outcomes["busy"] == 0, "none since the board began to look"
    assert list(directory.iterdir()) == []


def test_a_failed_write_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where the directory cannot be made, the thread ends, and the log says that the board will not see the process."""
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with CountingPool(1) as pool:
        heartbeat = Heartbeat(tmp_path / "file" / "section-log", "shop-a", pool=pool, outcomes=dict)
        heartbeat.start()
        heartbeat.join(30)
    assert not heartbeat.is_alive()
    assert "the board will not see this process" in caplog.text
