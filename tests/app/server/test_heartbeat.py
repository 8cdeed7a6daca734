"""What a worker tells of itself in a file, as the board reads it."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.board.sources.heartbeats import HeartbeatReader
from app.server.heartbeat import Heartbeat
from app.server.worker import CountingPool
from tests.support.waiting import wait_until

Start = Callable[[str, Callable[[], dict[str, int]]], None]


@pytest.fixture
def pool() -> Iterator[CountingPool]:
    with CountingPool(2) as pool:
        yield pool


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where instances write; it does not exist yet."""
    return tmp_path / "reports" / "section-log"


@pytest.fixture
def start(directory: Path, pool: CountingPool) -> Iterator[Start]:
    """Starts the heartbeat of an instance; at the end, its file is gone."""
    with ExitStack() as started:

        def start(instance: str, outcomes: Callable[[], dict[str, int]]) -> None:
            heartbeat = Heartbeat(directory, instance, pool=pool, outcomes=outcomes)
            heartbeat.start()
            started.callback(heartbeat.close)

        yield start
    assert list(directory.iterdir()) == []


def test_the_board_sees_what_a_worker_does(directory: Path, pool: CountingPool, start: Start) -> None:
    """The board reads busy threads, queued jobs and outcomes while all threads are busy, and idle."""
    sold, go_on, reader = itertools.count(100), threading.Event(), HeartbeatReader(directory)

    def seen() -> list[tuple[object, ...]]:
        return [(worker.instance, worker.pid, worker.threads, worker.busy, worker.queued) for worker in reader.read()]

    start("shop/a", lambda: {"sold": next(sold)})
    try:
        jobs = [pool.submit(go_on.wait) for _ in range(102)]  # enough for the line to get shorter afterwards
        wait_until(lambda: seen() == [("shop/a", os.getpid(), 2, 2, 100)])
    finally:
        go_on.set()
    assert all(job.result(30) for job in jobs)
    assert isinstance(pool.submit(int, "x").exception(30), ValueError)
    wait_until(lambda: seen() == [("shop/a", os.getpid(), 2, 0, 0)])
    wait_until(lambda: bool(seen() and reader.outcomes["sold"]))


def test_instances_share_a_directory(directory: Path, start: Start) -> None:
    """Two containers may have the same process id: what each instance has sold is counted for itself."""
    reader = HeartbeatReader(directory)
    start("shop-a", lambda: {"sold": 100})
    wait_until(lambda: [worker.instance for worker in reader.read()] == ["shop-a"])
    start("shop-b", lambda: {"sold": 200})
    wait_until(lambda: [worker.instance for worker in reader.read()] == ["shop-a", "shop-b"])
    assert reader.outcomes == {}


def test_a_failed_write_is_logged(tmp_path: Path, pool: CountingPool, caplog: pytest.LogCaptureFixture) -> None:
    """Where the directory cannot be made, the thread ends, and the log says that the board will not see the process."""
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    heartbeat = Heartbeat(tmp_path / "file" / "section-log", "shop-a", pool=pool, outcomes=dict)
    heartbeat.start()
    heartbeat.join(30)
    assert not heartbeat.is_alive()
    assert "the board will not see this process" in caplog.text
