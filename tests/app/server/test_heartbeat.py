"""What a worker tells of itself in a file, and what the board makes of it."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.board.sources.heartbeats import HeartbeatReader
from app.server.heartbeat import Heartbeat
from app.server.worker import CountingPool
from tests.support.waiting import wait_until


@pytest.fixture
def pool() -> Iterator[CountingPool]:
    """The two threads of a worker."""
    with CountingPool(2) as pool:
        yield pool


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where instances write; nobody has made it yet."""
    return tmp_path / "reports" / "section-log"


def test_the_board_sees_what_a_worker_does(directory: Path, pool: CountingPool) -> None:
    """Jobs in hand, jobs that wait and the rate of outcomes are told while all threads are busy, and when none is."""
    sold = itertools.count(100)
    heartbeat = Heartbeat(directory, instance="shop/a", pool=pool, outcomes=lambda: {"sold": next(sold)})
    reader, go_on = HeartbeatReader(directory), threading.Event()

    def seen() -> list[tuple[object, ...]]:
        return [(life.instance, life.pid, life.threads, life.busy, life.queued) for life in reader.read()]

    heartbeat.start()
    try:
        jobs = [pool.submit(go_on.wait) for _ in range(102)]  # enough for the line to get shorter afterwards
        wait_until(lambda: seen() == [("shop/a", os.getpid(), 2, 2, 100)])
        go_on.set()
        assert all(job.result(10) for job in jobs)
        assert isinstance(pool.submit(int, "x").exception(10), ValueError)
        wait_until(lambda: seen() == [("shop/a", os.getpid(), 2, 0, 0)])
        wait_until(lambda: seen() and reader.per_second().get("sold", 0) > 0)
    finally:
        go_on.set()
        heartbeat.close()
    assert list(directory.iterdir()) == []


def test_instances_share_a_directory(directory: Path, pool: CountingPool) -> None:
    """Whoever comes second finds the directory made, and is seen beside the first."""
    told = [Heartbeat(directory, instance=name, pool=pool, outcomes=dict) for name in ("shop-a", "shop-b")]
    reader = HeartbeatReader(directory)
    try:
        for number, heartbeat in enumerate(told, 1):
            heartbeat.start()
            wait_until(lambda number=number: len(reader.read()) == number)
        wait_until(lambda: [life.instance for life in reader.read()] == ["shop-a", "shop-b"])
    finally:
        for heartbeat in told:
            heartbeat.close()


def test_the_same_process_id_in_two_containers(directory: Path, pool: CountingPool) -> None:
    """The rate counts what each instance sold, and not how much more one of them has sold than the other."""
    told = [
        Heartbeat(directory, instance=name, pool=pool, outcomes=lambda sold=sold: {"sold": sold})
        for name, sold in (("shop-a", 100), ("shop-b", 0))
    ]
    reader = HeartbeatReader(directory)
    try:
        for heartbeat in told:
            heartbeat.start()
        wait_until(lambda: len(reader.read()) == 2 and reader.per_second())
        assert reader.per_second() == {"sold": 0}
    finally:
        for heartbeat in told:
            heartbeat.close()


def test_what_cannot_be_written_is_logged(tmp_path: Path, pool: CountingPool, caplog: pytest.LogCaptureFixture) -> None:
    """Where no directory can be made, the log says that the board will not see this process, and that is all."""
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    heartbeat = Heartbeat(tmp_path / "file" / "section-log", instance="shop-a", pool=pool, outcomes=dict)
    heartbeat.start()
    heartbeat.join(10)
    assert not heartbeat.is_alive()
    assert "the board will not see this process" in caplog.text
