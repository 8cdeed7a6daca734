"""The stack: its ports, its shops, what its board tells of it, and what the board may ask of it."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest
import redis
from click.testing import CliRunner

from loadtest.cli.options import no_pin
from loadtest.ports import is_occupied
from loadtest.stack.control import Control
from loadtest.stack.servers import answers_ok
from loadtest.stack.stack import Stack
from tests.loadtest.stack.test_servers import Script
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


def post(url: str, **body: object) -> dict[str, object]:
    """The JSON answer to a request that may take a while."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        answer: dict[str, object] = json.load(response)
    return answer


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
    for action in ("kill", "start"):
        post(f"{stage.board.url}/control/instance", instance=instance.name, action=action)
    for shop in (sibling, instance):
        with pytest.raises(urllib.error.HTTPError) as refusal:
            post(f"{shop.url}/stock/reduce?guard=etcd")
        assert "Redis has lost this sale: reset it" in json.load(refusal.value)["detail"]
        assert not answers_ok(f"{shop.url}/readyz")
    post(f"{stage.board.url}/control/reset", stock=3)
    assert post(f"{instance.url}/stock/reduce?guard=etcd")["outcome"] == "sold"
    assert answers_ok(f"{instance.url}/readyz")


WAITS = "import signal; print('ready'); signal.pause()"


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    with Script(tmp_path, WAITS) as running:
        yield running


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Script]:
    """The process in the part of the board."""
    with Script(tmp_path / "asking", WAITS) as running:
        yield running


def test_what_a_board_has_frozen_goes_on_when_the_board_is_killed(script: Script, asking: Script) -> None:
    """Nobody is left to thaw it; while the board runs, it stays frozen."""
    with closing(Control([script], asking)) as control:
        asked(control, "freeze")
        assert asked(control, "states") == {"states": {"script": "frozen"}}
        asking.kill()
        wait_until(lambda: asked(control, "states") == {"states": {"script": "running"}})


def test_what_is_dead_is_neither_frozen_nor_thawed_nor_killed(script: Script, asking: Script) -> None:
    """Each is refused with the reason; after a restart nothing of it is left, and it can be frozen."""
    with closing(Control([script], asking)) as control:
        os.killpg(script.pid, signal.SIGKILL)
        wait_until(lambda: not script.running)
        for ask in ("freeze", "thaw", "kill"):
            assert asked(control, ask) == {"error": "script does not run: start it first"}
        assert asked(control, "start") == {"done": "script has started."}
        assert asked(control, "states") == {"states": {"script": "running"}}
        assert asked(control, "freeze") == {"done": "script is frozen (SIGSTOP)."}
        assert asked(control, "states") == {"states": {"script": "frozen"}}


def asked(control: Control, ask: str) -> dict[str, object]:
    return control.answer({"ask": ask, "instance": "script"})
