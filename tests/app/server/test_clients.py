"""Clients that stop sending, or send what is no request, as gunicorn meets them before the application does."""

from __future__ import annotations

import http.client
import json
import select
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.server.sockets import RECEIVE_TIMEOUT_S, ClientSocket
from loadtest.stack.apps import Board, Instance
from loadtest.stack.process import Process

THREADS = 17  # at least as many as each of the servers has
DEADLINE_S = 20
PROBLEM = "application/problem+json"


@pytest.fixture(params=["shop", "board"])
def server(request: pytest.FixtureRequest, tmp_path: Path, env: dict[str, str]) -> Iterator[Process]:
    """A running instance of the shop, or the board."""
    env |= {"FLASHSALE_BOARD_VIEWERS": "1", "FLASHSALE_THREADS": str(THREADS)}
    with Instance(tmp_path, env=env) if request.param == "shop" else Board(tmp_path, env=env) as server:
        yield server


@contextmanager
def sent(server: Process, data: bytes) -> Iterator[socket.socket]:
    """A connection on which this was sent, and nothing else will be."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as client:
        client.sendall(data)
        yield client


def read_all(client: socket.socket) -> bytes:
    """What the server says until it has nothing more to say."""
    with client.makefile("rb") as stream:
        return stream.read()


def answer(server: Process, data: bytes) -> tuple[int, str, dict[str, Any]]:
    """Status, media type and document that whoever sends this gets, and nothing after it."""
    with sent(server, data) as client:
        head, _, body = read_all(client).partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert int(headers["content-length"]) == len(body)
    return int(status.split()[1]), headers["content-type"], json.loads(body)


def visitor(server: Process) -> closing[http.client.HTTPConnection]:
    """Somebody who keeps his connection."""
    return closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S))


def ask(connection: http.client.HTTPConnection) -> socket.socket:
    """Ask whether the server lives; the socket on which it said so."""
    connection.request("GET", "/livez")
    response = connection.getresponse()
    response.read()
    assert response.status == 200
    return connection.sock


def test_who_stops_sending_keeps_no_thread(server: Process) -> None:
    """One byte on a connection for every thread stops nobody: after some seconds those are closed, without much ado."""
    with ExitStack() as connections:
        silent = [connections.enter_context(sent(server, b"P")) for _ in range(THREADS)]
        with visitor(server) as other:
            ask(other)
        assert [client.recv(1) for client in silent] == [b""] * THREADS
    assert "Traceback" not in server.log.read_text()


def test_who_says_nothing_takes_no_thread(server: Process) -> None:
    """Connections on which nothing is asked, as browsers open them in advance, are many more than threads, and idle."""
    began = time.monotonic()
    with ExitStack() as connections:
        for _ in range(3 * THREADS):
            connections.enter_context(sent(server, b""))
        with visitor(server) as other:
            ask(other)
    assert time.monotonic() - began < RECEIVE_TIMEOUT_S


def test_who_is_idle_for_longest_makes_room(tmp_path: Path, env: dict[str, str]) -> None:
    """However many connections say nothing, there is room for one more: the oldest of them is closed for it."""
    env |= {"GUNICORN_CMD_ARGS": "--worker-connections 20"}
    began = time.monotonic()
    with Instance(tmp_path, env=env) as instance, ExitStack() as connections:
        silent = [connections.enter_context(sent(instance, b"")) for _ in range(40)]
        with visitor(instance) as other:
            ask(other)
            assert silent[0].recv(1) == b""
            silent[-1].sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert read_all(silent[-1]).startswith(b"HTTP/1.1 200")
    assert time.monotonic() - began < DEADLINE_S


def test_a_request_that_drips_in_has_an_end() -> None:
    """Who has sent too slowly for too long counts as having hung up, although there is more to receive."""
    accepted, client = socket.socketpair()
    with client, ClientSocket.of(accepted) as server_side:
        client.sendall(b"P")
        server_side.until = time.monotonic() + 60
        assert server_side.recv(1) == b"P"
        client.sendall(b"O")
        server_side.until = time.monotonic()
        assert server_side.recv(1) == b""


def test_an_answer_that_is_read_in_drips_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads too slowly for too long counts as having hung up, although each time something is read."""
    monkeypatch.setattr("app.server.sockets.SEND_TIMEOUT_S", 1)
    accepted, client = socket.socketpair()
    with client, ClientSocket.of(accepted) as server_side, ThreadPoolExecutor(1) as threads:
        sending = threads.submit(server_side.sendall, bytes(100_000_000))
        while not wait([sending], timeout=0.05).done:
            assert client.recv(100_000)
        with pytest.raises(BrokenPipeError):
            sending.result()


def test_an_answer_that_is_not_read_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads nothing at all for too long counts as having hung up."""
    monkeypatch.setattr("app.server.sockets.SEND_TIMEOUT_S", 1)
    accepted, client = socket.socketpair()
    with ThreadPoolExecutor(1) as threads, client, ClientSocket.of(accepted) as server_side:
        sending = threads.submit(server_side.sendall, bytes(100_000_000))
        with pytest.raises(BrokenPipeError, match="does not read its answer"):
            sending.result(DEADLINE_S)


@pytest.mark.slow
def test_who_drips_keeps_no_thread(instance: Instance) -> None:
    """Bodies that come at a byte a second, one for every thread, are told to hurry up, and nothing is sold."""
    head = b"POST /stock/reduce HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    with ExitStack() as connections:
        slow = [connections.enter_context(sent(instance, head)) for _ in range(THREADS)]
        while not (answered := select.select(slow, [], [], 1)[0]):
            for client in slow:
                client.sendall(b" ")
        assert answered[0].recv(4096).startswith(b"HTTP/1.1 408")
        with visitor(instance) as other:
            other.request("GET", "/stock")
            assert json.load(other.getresponse())["orders"] == 0


def test_who_does_not_hang_up_holds_up_nobody(server: Process) -> None:
    """Those who got their last answer and stay on the line are waited for all at once, not one after the other."""
    began = time.monotonic()
    with ExitStack() as connections:
        last = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        clients = [connections.enter_context(sent(server, last)) for _ in range(THREADS)]
        assert all(read_all(client).startswith(b"HTTP/1.1 200") for client in clients)
    assert time.monotonic() - began < DEADLINE_S


def test_who_is_silent_between_requests_stays(instance: Instance) -> None:
    """A connection that is kept alive idles for longer than a request may pause, and serves the next one."""
    with visitor(instance) as idle, sent(instance, b"P") as silent:
        first = ask(idle)
        assert silent.recv(1) == b""
        assert ask(idle) is first


def test_a_body_that_does_not_come_is_answered(instance: Instance) -> None:
    """Who stops in the middle of a body, or sends no proper chunks, is told so, or that it was too long anyway."""
    head = b"POST /stock/reduce HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    begun = {
        b"Content-Length: 10\r\n\r\n": 408,
        b"Content-Length: 10\r\n\r\n{": 408,
        b"Transfer-Encoding: chunked\r\n\r\nff\r\n{": 408,
        b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n" + b"x" * 20_000: 413,
        b"Transfer-Encoding: chunked\r\n\r\nno size\r\n": 400,
        b"Transfer-Encoding: chunked\r\n\r\n5000\r\n" + b"x" * 0x5000 + b"no end": 413,
    }
    with ThreadPoolExecutor(len(begun)) as clients:
        answers = list(clients.map(lambda body: answer(instance, head + body), begun))
    assert [status for status, _, _ in answers] == [*begun.values()]
    assert {(media_type, document["instance"]) for _, media_type, document in answers} == {(PROBLEM, instance.name)}
    assert "Traceback" not in instance.log.read_text()
    with visitor(instance) as other:
        other.request("GET", "/stock")
        assert json.load(other.getresponse())["orders"] == 0


def test_what_is_no_request_is_a_problem_too(instance: Instance) -> None:
    """What gunicorn refuses by itself is answered in problem+json, with the instance's name, and never in HTML."""
    for data, status, advice in (
        (b"GET /stock?" + b"x" * 5000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414, "JSON body"),
        (b"GET /stock HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 9000 + b"\r\n\r\n", 431, "shorter"),
        (b"this is no HTTP\r\n\r\n", 400, "no request"),
        (b"POST /stock HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: magic\r\n\r\n", 501, "magic"),
        (b"POST /stock HTTP/1.1\r\nHost: a\r\nExpect: magic\r\n\r\n", 417, "magic"),
    ):
        found, media_type, document = answer(instance, data)
        assert (found, media_type) == (status, PROBLEM)
        assert (document["status"], document["instance"]) == (status, instance.name)
        assert advice in document["detail"]
