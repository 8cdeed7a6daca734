"""The stack: its ports, its shops, what its board tells of it, and what the board may ask of it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import redis
from click.testing import CliRunner

from loadtest.cli.options import no_pin
from loadtest.ports import is_occupied
from loadtest.stack.servers import answers_ok
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
    post(f"{stage.board.url}/control/instance", instance=instance.name, action="kill")
    with pytest.raises(urllib.error.HTTPError) as refusal:
        post(f"{stage.board.url}/control/instance", instance=instance.name, action="freeze")
    assert "does not run: start it first" in json.load(refusal.value)["detail"]
    post(f"{stage.board.url}/control/instance", instance=instance.name, action="start")
    for shop in (sibling, instance):
        with pytest.raises(urllib.error.HTTPError) as refusal:
            post(f"{shop.url}/stock/reduce?guard=etcd")
        assert "Redis has lost this sale: reset it" in json.load(refusal.value)["detail"]
        assert not answers_ok(f"{shop.url}/readyz")
    post(f"{stage.board.url}/control/reset", stock=3)
    assert post(f"{instance.url}/stock/reduce?guard=etcd")["outcome"] == "sold"
    assert answers_ok(f"{instance.url}/readyz")
