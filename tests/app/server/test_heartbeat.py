"""What a worker tells of itself in a file, as the board reads it."""

from __future__ import annotations

import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from app.board.sources.heartbeats import HeartbeatReader
from app.server.heartbeat import Heartbeat
from app.server.threads import RequestCount, queued, start_all
from tests.support.waiting import wait_until


def test_the_board_sees_what_workers_do(tmp_path: Path) -> None:
    """Requests in threads, queued ones and outcomes while all threads work, and idle; also of two with one id."""
    directory, me = tmp_path / "reports" / "section-log", os.getpid()  # does not exist yet
    sold, go_on, reader = itertools.count(100), threading.Event(), HeartbeatReader(directory)

    def answer(environ: Any, start_response: Any) -> list[bytes]:
        if environ["fails"]:
            raise ValueError
        go_on.wait()
        return []

    def seen() -> list[tuple[object, ...]]:
        return [(each.instance, each.pid, each.threads, each.in_hand, each.queued) for each in reader.read()]

    count = RequestCount(answer)
    with ExitStack() as started:
        pool = started.enter_context(ThreadPoolExecutor(2))
        start_all(pool, 2)

        def load() -> dict[str, int]:
            return {"threads": 2, "in_hand": count.in_hand, "queued": queued(pool)}

        for instance, outcomes in {"shop/a": lambda: {"sold": next(sold)}, "shop-b": lambda: {"sold_out": 200}}.items():
            heartbeat = Heartbeat(directory, instance, load=load, outcomes=outcomes)
            heartbeat.start()
            started.enter_context(closing(heartbeat))
        try:
            jobs = [pool.submit(count, {"fails": False}, Mock()) for _ in range(102)]  # enough for a line
            wait_until(lambda: seen() == [("shop/a", me, 2, 2, 100), ("shop-b", me, 2, 2, 100)])
        finally:
            go_on.set()
        assert [job.result(30) for job in jobs] == [[]] * 102
        assert isinstance(pool.submit(count, {"fails": True}, Mock()).exception(30), ValueError)
        wait_until(lambda: seen() == [("shop/a", me, 2, 0, 0), ("shop-b", me, 2, 0, 0)])
        wait_until(lambda: seen() and reader.outcomes["sold"])
        assert reader.outcomes["sold_out"] == 0, "none since the board began to look"
    assert list(directory.iterdir()) == []
