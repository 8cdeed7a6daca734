"""More buyers than an instance has room for: quick answers, and no thread for them."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from pathlib import Path

import psutil
from flask import Flask

from app import services
from app.board.sources.heartbeats import HeartbeatReader
from app.contract.outcomes import Outcome
from app.guards import guards
from app.web.busy import BusyAnswers
from loadtest.results.answer import Answer
from loadtest.stack.apps import Instance
from lock import Mutex
from tests.support.shops import SELLERS
from tests.support.waiting import wait_until

HEAD = "POST {} HTTP/1.1\r\nHost: localhost\r\n"
BUY = HEAD.format("/stock/reduce?guard=etcd") + "Connection: close\r\n\r\n"
BODY = HEAD.format("/stock/reduce") + 'Content-Type: application/json\r\nContent-Length: 18\r\n\r\n{"guard":"thread"}'

NONSENSE = ("{", "5", "[1]", "null", "[" * 5000, "\0")  # bodies that the routes would refuse


def answer_of(client: socket.socket) -> tuple[int, dict[str, str], bytes]:
    with closing(client), client.makefile("rb") as stream:
        head, _, body = stream.read().partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return int(status.split()[1]), dict(line.split(": ", 1) for line in lines), body


def test_a_full_instance_says_busy(tmp_path: Path, env: dict[str, str], stranger: Mutex) -> None:
    """With two purchases in threads and two behind them the next are told "busy"; `GET /stock` waits as usual."""
    log = tmp_path / "section-log"
    env |= {"FLASHSALE_THREADS": "2", "FLASHSALE_QUEUE": "4", "FLASHSALE_SECTION_LOG": str(log)}
    reader = HeartbeatReader(log)

    def connected() -> socket.socket:
        return socket.create_connection(("127.0.0.1", instance.port), timeout=60)

    def send(request: str) -> socket.socket:
        client = connected()
        client.sendall(request.encode())
        return client

    def in_hand() -> int:
        return sum(each.in_hand for each in reader.read())

    with Instance(tmp_path, env=env) as instance:
        (worker,) = psutil.Process(instance.pid).children()
        with stranger.acquire(timeout=20):
            admitted = list[socket.socket]()
            while len(admitted) < 4:  # one by one: at first the look at its readiness may still be in hand
                admitted.append(send(BUY))
                wait_until(lambda: in_hand() == len(admitted))
            open_before = worker.net_connections()
            early = connected()
            wait_until(lambda: len(worker.net_connections()) > len(open_before))
            early.sendall(BUY.encode())
            refused = [answer_of(early), *(answer_of(send(request)) for request in (BUY, BODY))]
            look = send("GET /stock HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            wait_until(lambda: in_hand() == 5)
            wait_until(lambda: sum(each.outcomes["busy"] for each in reader.read()) == 3)
        for status, headers, body in refused:
            assert (status, headers["Retry-After"], headers["Connection"]) == (503, "1", "close")
            assert headers["Content-Type"] == "application/problem+json"
            told = Answer.read("", "", status, body, sent=0.0, received=0.0)
            assert (told.outcome, told.instance, told.in_doubt) == (Outcome.BUSY, instance.name, False)
        assert [json.loads(body)["guard"] for _, _, body in refused] == ["etcd", "etcd", "thread"]
        assert [answer_of(client)[0] for client in admitted] == [200] * 4
        assert answer_of(look)[0] == 200
        assert answer_of(send(BUY))[0] == 200


def test_a_busy_answer_has_the_members_of_every_refusal(app: Flask) -> None:
    """The same headers and members as of a purchase that is refused, but for the item, which was not looked at."""
    busy = BusyAnswers(app).answer(BUY.encode())
    assert busy is not None
    services.of(app).drain()
    refused = app.test_client().post("/stock/reduce?guard=etcd")
    head, _, body = busy.partition(b"\r\n\r\n")
    assert refused.status_code == int(head.split()[1]) == 503
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    names = {line.split(b": ")[0].decode() for line in head.split(b"\r\n")[1:]}
    assert names == set(refused.headers.keys()) - {"Server-Timing"} | {"Connection"}
    assert json.loads(body).keys() == refused.get_json().keys() - {"item", "in_doubt"}


WHOLE_OR_NOT: list[tuple[str, str | None]] = [
    *((HEAD.format(f"/stock/reduce?guard={name}") + "\r\n", name) for name in guards()),
    (HEAD.format("/stock/reduce") + "Content-Length: 0\r\n\r\n", "etcd"),
    (HEAD.format("/stock/reduce") + 'content-length: 16\r\n\r\n{"guard":"none"}', "none"),
    *((HEAD.format(f"{path}?items=1,2") + "\r\n", name) for name, path in SELLERS.items()),
    *((HEAD.format("/stock/reduce") + f"content-length: {len(body)}\r\n\r\n{body}", "etcd") for body in NONSENSE),
    (HEAD.format("/stock/reduce?guard=nothing") + "\r\n", None),  # the routes say what is wrong with it
    (HEAD.format("/stock/reduce"), None),  # the rest has not come yet
    (HEAD.format("/stock/reduce") + 'Content-Length: 16\r\n\r\n{"guard":', None),
    (HEAD.format("/stock/reduce") + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", None),
    (BUY + BUY, None),
    (HEAD.format("/stock/reset") + "\r\n", None),
    ("GET /stock HTTP/1.1\r\nHost: localhost\r\n\r\n", None),
    ("", None),
]


def test_only_a_whole_purchase_is_refused(app: Flask) -> None:
    """It is counted under its guard; what the routes have to answer is neither refused nor counted."""
    busy, metrics, refused = BusyAnswers(app), services.of(app).metrics, 0
    for text, guard in WHOLE_OR_NOT:
        answer = busy.answer(text.encode())
        assert (answer and json.loads(answer.partition(b"\r\n\r\n")[2])["guard"]) == guard, text
        refused += guard is not None
        assert metrics.outcomes()["busy"] == refused, text
