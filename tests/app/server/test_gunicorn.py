"""One instance as it is run: gunicorn, its signals, its workers, its log; and what no proper client sends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
import requests

from app.config.settings import Settings
from app.guards import guards as known_guards
from app.server.threads import RequestCount
from loadtest.shop_client.shops import in_progress
from loadtest.stack.apps import Board, Instance
from loadtest.stack.process import ManagedProcess
from lock import Mutex
from tests.support.waiting import assert_raises, wait_until

Answer = tuple[int, dict[str, Any]]
SOLD = 'flashsale_purchases_total{guard="etcd",outcome="sold"}'


def buy(instance: Instance, query: str) -> Answer:
    answer = requests.post(f"{instance.url}/stock/reduce?{query}", timeout=60)
    return answer.status_code, answer.json()


def workers(instance: Instance) -> set[int]:
    """The processes that answer for the instance."""
    return {child.pid for child in psutil.Process(instance.pid).children()}


def test_sigterm_drains(tmp_path: Path, env: dict[str, str], settings: Settings, stranger: Mutex) -> None:
    """On SIGTERM waiters are refused under every guard while the holder's purchase goes on; its lease is revoked."""
    names = [name for name in known_guards() if name not in {"none", "redis-lua"}]
    guards = {str(item): name for item, name in enumerate(names, 1)}
    env |= {"FLASHSALE_SECTION_LOG": str(tmp_path / "section-log"), "FLASHSALE_ITEMS": str(len(guards))}
    env |= {"FLASHSALE_THREADS": "64", "GUNICORN_CMD_ARGS": "--graceful-timeout 20"}
    with Instance(tmp_path, env=env) as instance, ThreadPoolExecutor(4 * len(guards)) as threads:

        def click(item: str) -> Future[Answer]:
            return threads.submit(buy, instance, f"guard={guards[item]}&item={item}&hold_ms=6000")

        def holders() -> int:
            return sum(path.read_bytes().count(b'"enter"') for path in tmp_path.glob("section-log/*.jsonl"))

        holder = {item: click(item) for item in guards}
        wait_until(lambda: holders() == len(guards))
        name, session = f"flash-sale/{settings.sale}:", stranger.session
        held = [contender for item in guards for contender in Mutex(session, name + item).contenders()]
        waiters = {item: [click(item) for _ in range(3)] for item in guards}
        wait_until(lambda: in_progress(instance.url) == 4 * len(guards))
        os.kill(instance.pid, signal.SIGTERM)
        for item, guard in guards.items():
            answers = [waiter.result() for waiter in waiters[item]]
            assert not holder[item].done() or guard == "redis-watch"  # which waits only after it was overtaken
            told = [(status, body["outcome"], body["in_doubt"]) for status, body in answers]
            assert told == [(503, "unavailable", False)] * 3
            assert all("another instance" in body["detail"] for _, body in answers)
        wait_until(lambda: not instance.running, timeout=20)
    assert {item: bought.result()[0] for item, bought in holder.items()} == dict.fromkeys(guards, 200)
    assert instance.returncode == 0
    assert len(held) == sum(guard.startswith("etcd") for guard in guards.values())
    assert {session.client.time_to_live(each.lease_id).ttl for each in held} == {-1}


def test_a_hold_that_outlasts_the_stop_is_given_up(tmp_path: Path, env: dict[str, str], stranger: Mutex) -> None:
    """A purchase that outlasts the stop loses its lock before the kill, not after a lease of a minute."""
    env |= {"FLASHSALE_LEASE_TTL": "60", "GUNICORN_CMD_ARGS": "--graceful-timeout 3"}
    with Instance(tmp_path, env=env) as instance, ThreadPoolExecutor(1) as threads:
        threads.submit(buy, instance, "guard=etcd&hold_ms=30000")
        wait_until(stranger.contenders)
        (holder,) = stranger.contenders()
        os.kill(instance.pid, signal.SIGTERM)
        wait_until(lambda: stranger.session.client.time_to_live(holder.lease_id).ttl == -1)
        wait_until(lambda: not instance.running)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system keeps no process on a CPU")
def test_a_reload_goes_on_with_one_worker(tmp_path: Path, env: dict[str, str], stranger: Mutex) -> None:
    """Purchases in hand are counted, each line of the log names the instance, and a new worker serves after SIGHUP.

    All its threads, those of gRPC too, are on the CPU that is set, whose number starts anew behind the last.
    """
    usable = sorted(os.sched_getaffinity(0))
    (home := tmp_path / "home").mkdir()
    env |= {"HOME": str(home), "XDG_RUNTIME_DIR": str(home), "GUNICORN_CMD_ARGS": "--access-logfile -"}
    env |= {"FLASHSALE_CPU": str(2 * len(usable) - 1)}
    with Instance(tmp_path, env=env) as instance, ThreadPoolExecutor(6) as threads:
        with stranger.acquire(timeout=20):
            clicks = [threads.submit(buy, instance, "guard=etcd") for _ in range(6)]
            wait_until(lambda: len(stranger.contenders()) == 7)
            assert in_progress(instance.url) == 6
        assert [click.result()[0] for click in clicks] == [200] * 6
        wait_until(lambda: instance.log.read_text().count("/stock/reduce") == 6)
        assert all(f" {instance.name} [" in line for line in instance.log.read_text().splitlines() if "/stock" in line)
        assert not list(home.iterdir())
        assert f"\n{SOLD} 6.0\n" in requests.get(f"{instance.url}/metrics", timeout=20).text
        assert in_progress(instance.url) == 0
        before = workers(instance)
        os.kill(instance.pid, signal.SIGHUP)
        wait_until(lambda: len(workers(instance)) == 1 and not workers(instance) & before, timeout=30)
        assert buy(instance, "guard=etcd")[0] == 200
        (worker,) = workers(instance)
        allowed = {frozenset(os.sched_getaffinity(thread.id)) for thread in psutil.Process(worker).threads()}
        assert allowed == {frozenset({usable[-1]})}
        assert f"Worker {worker}: all threads on CPU {usable[-1]} of {len(usable)}" in instance.log.read_text()


def test_a_bad_setting_stops_the_start_with_one_line() -> None:
    """A setting that cannot be used ends gunicorn with a line that says what to do, without a traceback."""
    command = [sys.executable, "-m", "gunicorn", "-c", "app/gunicorn.conf.py", "app:create_app()"]
    env = {**os.environ, "FLASHSALE_PORT": "http"}
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert run.returncode != 0
    assert "FLASHSALE_PORT: Input should be a valid integer" in run.stderr
    assert "Traceback" not in run.stderr


def test_requests_are_counted_while_they_run() -> None:
    """One that has failed runs no longer."""
    seen = list[int]()

    def fail(*_: Any) -> list[bytes]:
        seen.append(count.in_hand)
        raise ValueError

    count = RequestCount(fail)
    for _ in range(2):
        assert_raises(ValueError, count, {}, Mock())
    assert (seen, count.in_hand) == ([1, 1], 0)


# Requests that no proper client sends, and large ones, on raw sockets, to shop and board as gunicorn runs them.


PROBLEM = "application/problem+json"
LARGE = f"2710\r\n{'x' * 10_000}\r\n" * 1000 + "0\r\n\r\n"  # 10 MB in chunks
POST = "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


CHUNKS = ("2\r\n{}\r\n0\r\n\r\n", "no size\r\n", "5\r\nhello\r\nno size\r\n", "5\r\nhello!!", "ff\r\n{", LARGE)
FORWARDED = (
    *("SCRIPT_NAME: /elsewhere", "SCRIPT_NAME: /livez", "PATH_INFO: /elsewhere"),
    "X-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off",
    "X-Forwarded-Host: evil.example\r\nX-Forwarded-Prefix: /elsewhere",
)


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


@pytest.mark.parametrize("kind", [Instance, Board])
def test_what_no_proper_client_sends_is_a_problem(
    tmp_path: Path, env: dict[str, str], kind: type[Instance | Board]
) -> None:
    """A doubled slash is not redirected to the client's Host, as werkzeug would; headers of proxies change nothing.

    A body in chunks is received before it is refused, so a bad chunk causes no second response; one that breaks off,
    or has 10 MB, is refused. Nothing is sold; the log names the instance, and no request.
    """
    gets = ("/stock//", "/records//x", "//evil.example/..", "/static//a")
    with kind(tmp_path, env=env) as server:
        for host, request in product(
            ("localhost", "evil.example"), ("POST /stock//reduce", *(f"GET {each}" for each in gets))
        ):
            status, headers, _ = exchange(server, f"{request} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n")
            assert status in ((403,) if host == "evil.example" else (404, 405, 415))
            assert headers["content-type"] == PROBLEM
            assert "location" not in headers
        for header in FORWARDED:
            status, _, document = exchange(server, f"GET /livez HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n")
            assert (status, document["status"]) == (200, "alive"), header
        for body in CHUNKS:
            request = POST.format("/stock/reduce") + f"Transfer-Encoding: chunked\r\n\r\n{body}"
            status, headers, document = exchange(server, request)
            assert (status, headers["content-type"], document["status"]) == (411, PROBLEM, 411), body[:99]
        for status, length, body in ((400, 10, ""), (400, 10, "{"), (413, 10**7, "[" * 10**7)) * (kind is Instance):
            request = POST.format("/stock/reduce") + f"Content-Length: {length}\r\n\r\n{body}"
            told, headers, document = exchange(server, request)
            assert (told, headers["content-type"], document["instance"]) == (status, PROBLEM, server.name)
            assert ("limit is 16384 bytes" in document["detail"]) == (status == 413)
            assert exchange(server, "GET /stock HTTP/1.1\r\nHost: localhost\r\n\r\n")[2]["orders"] == 0
        lines = server.log.read_text().splitlines()
    assert lines
    assert kind is Board or all(f" {server.name} [" in line and "/stock" not in line for line in lines)
