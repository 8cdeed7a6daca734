"""What the board reads: how instances look, also where none answers, and each order and section once."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.board.sources import instances
from app.board.sources.heartbeats import WorkerStatus
from app.board.sources.instances import Instances, State
from app.board.sources.ledger import LedgerReader
from app.config.settings import Settings
from app.contract.section_log import SectionTail
from app.sales.purchase import Purchase, Section
from app.sales.redis_client import connect
from app.sales.sale import Sale
from app.sales.stock import Stock
from loadtest.ports import free_port
from lock import connect as connect_etcd
from tests.support.serving import answering
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


def test_a_run_that_was_missed_is_not_mistaken(settings: Settings) -> None:
    """Looking on opens no sale.

    After two resets with a run in between, the end of the one that was watched is not known, and is not made up.
    """
    with connect(settings.redis_url, connections=2) as client, connect_etcd(settings.etcd_endpoints) as etcd:
        reader = LedgerReader(client, settings.sale)
        assert reader.read() is None
        assert not client.keys(f"*{settings.sale}*")
        sale = Sale(client, settings.sale, etcd=etcd, stock=10)
        for buyer in ("ada", "bob"):
            sale.reset(5)
            Stock(sale).sell(Section(Purchase(buyer, "redis-lua")))
            assert buyer == "bob" or reader.read()
        sale.reset(5)
        reading = reader.read()
    assert reading is not None
    assert reading.ended is None


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    """A board that begins late does not read for minutes what happened hours ago."""
    path = tmp_path / "shop-a-1.jsonl"
    line = {"at": 1, "event": "enter", "item": "1", "buyer": "ada", "guard": "etcd", "token": 7}
    line |= {"instance": "shop-a", "pid": 1, "thread": "t", "line": 1}

    def append(*numbers: int) -> None:
        with path.open("a") as file:
            file.writelines(json.dumps({**line, "order": str(number)}) + "\n" for number in numbers)

    append(*range(100))
    tail = SectionTail(tmp_path, most_bytes=400)  # a line has some 150
    assert [each.order for each in tail.poll()] == ["98", "99"]
    append(100)
    assert [each.order for each in tail.poll()] == ["100"]
