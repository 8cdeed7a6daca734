"""How instances look from the board, and that it goes on when none of them answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from flask import Flask

from app.board.sources import instances
from app.board.sources.heartbeats import WorkerStatus
from app.board.sources.instances import Instances, State
from loadtest.ports import free_port
from tests.app.board.conftest import Watch
from tests.support.serving import answering
from tests.support.shops import buy
from tests.support.waiting import wait_until


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of an instance that is frozen: connections stand, and are never read from."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def watching(*urls: str) -> Iterator[Instances]:
    watched = Instances(urls, stack=None)
    watched.start()
    try:
        yield watched
    finally:
        watched.close()
    wait_until(lambda: not [each for each in threading.enumerate() if each.name.startswith("livez")])


def test_how_an_instance_is(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance that answers is up, under its own name; the others are silent, busy or down."""
    monkeypatch.setattr(instances, "TIMEOUT", 0.1)
    away = f"http://127.0.0.1:{free_port()}"
    netloc = silent.removeprefix("http://")
    expected = [("shop-a", State.UP), (netloc, State.SILENT), (away.removeprefix("http://"), State.DOWN)]
    with answering(lambda *_: {"instance": "shop-a"}) as living, watching(living, silent, away) as watched:
        wait_until(lambda: [(each["name"], each["state"]) for each in watched.look([])] == sorted(expected))
        beat = WorkerStatus(at=0, instance=netloc, pid=7, began=2_000_000, threads=8, in_hand=8, queued=40, outcomes={})
        (busy,) = [each for each in watched.look([beat], since_ns=1_000_000) if each["url"] == silent]
        assert (busy["state"], busy["in_hand"], busy["queued"]) == (State.BUSY, 8, 40)
        assert busy["workers"] == [{"pid": 7, "began_ms": 1.0}]


def test_instances_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are sorted by name; one that is found no more is watched no more, unless none can be found."""
    found, failed = ["http://b", "http://a"], threading.Semaphore(0)

    def find(_: object) -> list[str]:
        if not found:
            failed.release()
            raise socket.gaierror("Name or service not known")
        return list(found)

    monkeypatch.setattr(instances, "FIND_S", 0.02)
    monkeypatch.setattr(instances, "find", find)
    monkeypatch.setattr(instances, "ask_livez", lambda url: (State.UP, f"shop at {url}"))
    with watching("dns+http://tasks.shop:8080") as watched:
        wait_until(lambda: [each["name"] for each in watched.look([])] == ["shop at http://a", "shop at http://b"])
        found.clear()
        assert failed.acquire(timeout=20)
        assert failed.acquire(timeout=20)
        assert len(watched.look([])) == 2
        found.append("http://a")
        wait_until(lambda: [each["name"] for each in watched.look([])] == ["shop at http://a"])


def test_frozen_instances_hold_nobody_up(silent: str, app: Flask, watch: Watch) -> None:
    """While no instance answers the board, it shows what is sold as it is sold."""
    watcher = watch(instances=(silent,))
    for sold in (1, 2, 3):
        assert buy(app, "redis-lua")["status"] == 200
        watcher.wait_orders(sold)
    now = watcher.wait(lambda now: [each["state"] for each in now["instances"]] == ["silent"])
    assert now["unavailable"] == {"redis": None, "etcd": None}
