"""Requests that no proper client sends, and large ones, on raw sockets, to shop and board as gunicorn runs them."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from loadtest.stack.apps import Board, Instance
from loadtest.stack.process import ManagedProcess
from loadtest.stack.servers import Etcd, Redis
from tests.support.shops import environment

PROBLEM = "application/problem+json"
LARGE = f"2710\r\n{'x' * 10_000}\r\n" * 1000 + "0\r\n\r\n"  # 10 MB in chunks
POST = "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory, etcd: Etcd, redis_server: Redis
) -> Iterator[dict[str, ManagedProcess]]:
    env = environment(etcd, redis_server, uuid.uuid4().hex)
    directory = tmp_path_factory.mktemp("servers")
    with Instance(directory, env=env) as shop, Board(directory, env=env) as board:
        yield {"shop": shop, "board": board}


@pytest.fixture(params=["shop", "board"])
def server(request: pytest.FixtureRequest, servers: dict[str, ManagedProcess]) -> ManagedProcess:
    return servers[request.param]


def exchange(server: ManagedProcess, request: str) -> tuple[int, dict[str, str], Any]:
    """Send all of `request` and no more; return status, headers and body of the only response."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
        client.sendall(request.encode("latin-1"))
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as stream:
            head, _, body = stream.read().partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert int(headers["content-length"]) == len(body), body
    return int(status.split()[1]), headers, json.loads(body) if "json" in headers["content-type"] else body


@pytest.mark.parametrize("host", ["localhost", "evil.example"])
def test_a_doubled_slash_is_not_redirected(server: ManagedProcess, host: str) -> None:
    """No response has a Location, which werkzeug would build from the client's Host."""
    gets = ("/stock//", "/records//x", "//evil.example/..", "/static//a")
    for request in ("POST /stock//reduce", *(f"GET {path}" for path in gets)):
        status, headers, _ = exchange(server, f"{request} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n")
        assert status in ((403,) if host == "evil.example" else (404, 405, 415))
        assert headers["content-type"] == PROBLEM
        assert "location" not in headers


def test_forwarded_headers_are_ignored(server: ManagedProcess) -> None:
    """Headers with another path, scheme or host change nothing."""
    for headers in (
        *("SCRIPT_NAME: /elsewhere", "SCRIPT_NAME: /livez", "PATH_INFO: /elsewhere"),
        "X-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off",
        "X-Forwarded-Host: evil.example\r\nX-Forwarded-Prefix: /elsewhere",
    ):
        status, _, document = exchange(server, f"GET /livez HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n")
        assert (status, document["status"]) == (200, "alive"), headers


def test_bad_chunks_get_one_response(server: ManagedProcess) -> None:
    """A body in chunks is received before it is refused, so a bad chunk causes no second response."""
    for body in ("2\r\n{}\r\n0\r\n\r\n", "no size\r\n", "5\r\nhello\r\nno size\r\n", "5\r\nhello!!", "ff\r\n{", LARGE):
        request = POST.format("/stock/reduce") + f"Transfer-Encoding: chunked\r\n\r\n{body}"
        status, headers, document = exchange(server, request)
        assert (status, headers["content-type"], document["status"]) == (411, PROBLEM, 411), body[:99]


@pytest.mark.parametrize(("status", "length", "body"), [(400, 10, ""), (400, 10, "{"), (413, 10**7, "[" * 10**7)])
def test_a_bad_body_is_a_problem(servers: dict[str, ManagedProcess], status: int, length: int, body: str) -> None:
    """One that breaks off, or has 10 MB, is refused; nothing is sold; the log names the instance, and no request."""
    instance, request = servers["shop"], POST.format("/stock/reduce") + f"Content-Length: {length}\r\n\r\n{body}"
    told, headers, document = exchange(instance, request)
    assert (told, headers["content-type"], document["instance"]) == (status, PROBLEM, instance.name)
    assert ("limit is 16384 bytes" in document["detail"]) == (status == 413)
    lines = instance.log.read_text().splitlines()
    assert lines
    assert all(f" {instance.name} [" in line and "/stock" not in line for line in lines)
    assert exchange(instance, "GET /stock HTTP/1.1\r\nHost: localhost\r\n\r\n")[2]["orders"] == 0
