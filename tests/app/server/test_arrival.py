"""A request counts from when it came, not from when a thread has time for it."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from app.config.settings import Settings
from loadtest.stack.apps import Instance
from lock import Mutex, Session, connect
from tests.support.waiting import wait_until

Connect = Callable[[], http.client.HTTPConnection]
CLICK = "/stock/reduce?guard=etcd"


@pytest.fixture
def instance(tmp_path: Path, settings: Settings) -> Iterator[Instance]:
    """A shop with two threads and one piece."""
    env = {
        "FLASHSALE_ETCD_ENDPOINTS": settings.etcd_endpoints,
        "FLASHSALE_REDIS_URL": settings.redis_url,
        "FLASHSALE_SALE": settings.sale,
        "FLASHSALE_STOCK": "1",
        "FLASHSALE_LOCK_TIMEOUT": "20",
        "FLASHSALE_THREADS": "2",
        "FLASHSALE_SECTION_LOG": str(tmp_path / "section-log"),
    }
    with Instance(tmp_path, env=env) as instance:
        yield instance


@pytest.fixture
def connected(instance: Instance) -> Iterator[Connect]:
    """Makes connections that the shop keeps alive."""
    with ExitStack() as connections:

        def connect_and_ask() -> http.client.HTTPConnection:
            connection = http.client.HTTPConnection(urlsplit(instance.url).netloc, timeout=20)
            connections.callback(connection.close)
            connection.request("GET", "/livez")
            connection.getresponse().read()
            return connection

        yield connect_and_ask


@pytest.fixture
def stranger(settings: Settings) -> Iterator[Mutex]:
    """The sale's mutex in the hands of another program."""
    with connect(settings.etcd_endpoints) as client, Session(client, name="stranger") as session:
        yield Mutex(session, f"flash-sale/{settings.sale}")


def outcome(connection: http.client.HTTPConnection) -> tuple[str, bool]:
    """The answer to a click: what came of it, and whether it looked at the stock."""
    response = connection.getresponse()
    read_ms = re.search(r"read;dur=([\d.]+)", response.headers["Server-Timing"])
    assert read_ms is not None
    return json.load(response)["outcome"], float(read_ms[1]) > 0


def queued(directory: Path) -> int:
    """How many requests wait for a thread."""
    (heartbeat,) = directory.glob("*.heartbeat")
    waiting: int = json.loads(heartbeat.read_text())["queued"]
    return waiting


def test_who_waited_for_a_thread_need_not_look(connected: Connect, stranger: Mutex, tmp_path: Path) -> None:
    """Two threads stand in line; of those whose clicks wait for a thread meanwhile nobody looks at the empty stock."""
    threads, waiting, late = [connected(), connected()], [connected() for _ in range(4)], connected()
    with stranger.acquire(timeout=20):
        for connection in threads:
            connection.request("POST", CLICK)
        wait_until(lambda: len(stranger.contenders()) == 3)
        for connection in waiting:
            connection.request("POST", CLICK)
        wait_until(lambda: queued(tmp_path / "section-log") == 4)
    assert sorted(outcome(connection) for connection in threads) == [("sold", True), ("sold_out", True)]
    assert [outcome(connection) for connection in waiting] == [("sold_out", False)] * 4
    late.request("POST", CLICK)
    assert outcome(late) == ("sold_out", True)


@pytest.mark.parametrize(
    ("early", "rest"),
    [
        (b"\r\n", b"POST /stock/reduce?guard=etcd HTTP/1.1\r\nHost: shop\r\n\r\n"),
        (b"POST /stock/re", b"duce?guard=etcd HTTP/1.1\r\nHost: shop\r\n\r\n"),
        (
            b"POST /stock/reduce HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\n"
            b"Content-Length: 16\r\n\r\n",
            b'{"guard":"etcd"}',
        ),
        (
            b"POST /stock/reduce HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\n"
            b"transfer-encoding:chunked\r\n\r\n",
            b'10\r\n{"guard":"etcd"}\r\n0\r\n\r\n',
        ),
    ],
    ids=["an empty line", "half a head", "a head without its body", "a head without its chunks"],
)
def test_who_has_not_finished_asking_has_not_clicked(connected: Connect, early: bytes, rest: bytes) -> None:
    """Whoever ends his request after a reset hears of the sale after it, however early he began."""
    slow, quick = connected(), connected()
    slow.sock.sendall(early)
    outcomes = []
    for _ in range(2):
        quick.request("POST", CLICK)
        outcomes.append(outcome(quick)[0])
    assert outcomes == ["sold", "sold_out"]
    quick.request("POST", "/stock/reset")
    assert quick.getresponse().read()
    slow.sock.sendall(rest)
    answer = http.client.HTTPResponse(slow.sock, method="POST")
    answer.begin()
    assert json.load(answer)["outcome"] == "sold"


def test_a_new_connection_counts_from_its_click(
    connected: Connect, stranger: Mutex, instance: Instance, tmp_path: Path
) -> None:
    """Who has not been here before, and waits for a thread while others learn that nothing is left, need not look."""
    threads = [connected(), connected()]
    new = http.client.HTTPConnection(urlsplit(instance.url).netloc, timeout=20)
    with stranger.acquire(timeout=20):
        for connection in threads:
            connection.request("POST", CLICK)
        wait_until(lambda: len(stranger.contenders()) == 3)
        new.request("POST", CLICK)
        wait_until(lambda: queued(tmp_path / "section-log") == 1)
    assert sorted(outcome(connection) for connection in threads) == [("sold", True), ("sold_out", True)]
    assert outcome(new) == ("sold_out", False)
    new.close()


def test_a_click_behind_another_one_looks_for_itself(connected: Connect, stranger: Mutex, tmp_path: Path) -> None:
    """Of a request that was sent before the one ahead of it was answered, nobody knows when it came."""
    threads, pair = [connected(), connected()], connected()
    with stranger.acquire(timeout=20):
        for connection in threads:
            connection.request("POST", CLICK)
        wait_until(lambda: len(stranger.contenders()) == 3)
        pair.sock.sendall(f"POST {CLICK} HTTP/1.1\r\nHost: shop\r\nContent-Length: 0\r\n\r\n".encode() * 2)
        wait_until(lambda: queued(tmp_path / "section-log") == 1)
    answered = pair.sock.makefile("rb")
    looked = [
        float(match[1]) > 0 for match in re.finditer(rb"read;dur=([\d.]+)", _until_two_answers(answered.readline))
    ]
    assert looked == [False, True]


def _until_two_answers(readline: Callable[[], bytes]) -> bytes:
    text = b""
    while text.count(b"read;dur=") < 2:
        text += readline()
    return text
