"""The scenes, on a stack with its board: each ends with its sentence, and leaves everything running."""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.contract.outcomes import Outcome
from labs.scenes.commands import TEXTS
from labs.scenes.scenes import SCENES
from loadtest.stack.stack import Stack
from tests.support.terminal import WAIT_S, Terminal
from tests.support.waiting import wait_until

STATIC = Path(__file__).parents[1] / "static"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two shops with their board, and a lease that ends soon."""
    env = {"FLASHSALE_LEASE_TTL": "2", "FLASHSALE_THREADS": "16"}
    with Stack(tmp_path_factory.mktemp("stack"), ports="free", board=True, durable=True, env=env) as stack:
        yield stack


def ask(stack: Stack, path: str, body: dict[str, Any] | None = None) -> Any:
    """What the board answers."""
    assert stack.board is not None
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{stack.board.url}/scenes/{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)


def play(stack: Stack, scene: str) -> dict[str, Any]:
    """The scene to its end, with a teacher who never waits."""
    ask(stack, "start", {"scene": scene})

    def is_over() -> bool:
        show = ask(stack, "state")["show"]
        if show["waits"]:
            ask(stack, "next", {})
        return bool(show["over"])

    wait_until(is_over, timeout=90)
    show: dict[str, Any] = ask(stack, "state")["show"]
    return show


ENDINGS = {
    "pause": [("etcd-unfenced", "pause.sold_twice", "oversold"), ("etcd", "pause.noticed", "exact")],
    "kill": [("etcd", "kill.sold_once", "exact")],
    "etcd": [("etcd", "etcd.waited", "exact")],
    "redis": [("redis-lua", "redis.refused", "exact")],
}


@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_ends_with_its_sentence(stack: Stack, scene: str) -> None:
    """Every phase is announced, the results are the expected ones, and all processes run again."""
    show = play(stack, scene)
    assert show["problem"] is None
    assert [(each["guard"], each["text"], each["kind"]) for each in show["results"]] == ENDINGS[scene]
    assert len(show["phases"]) >= 2
    for each in [*show["phases"], *show["results"]]:
        assert TEXTS["en"][each["text"]].format(**each["values"])
    assert all(process.running and not process.frozen for process in stack.processes)
    if scene == "pause":
        refused = show["results"][1]["values"]
        assert refused["later"] > refused["token"]


def test_a_scene_that_is_stopped_leaves_nothing_frozen(stack: Stack) -> None:
    """A second one has to wait for its end; afterwards the frozen holder goes on."""
    ask(stack, "start", {"scene": "pause"})
    wait_until(lambda: ask(stack, "state")["show"]["waits"])
    with pytest.raises(urllib.error.HTTPError, match="409"):
        ask(stack, "start", {"scene": "kill"})
    ask(stack, "next", {})
    wait_until(lambda: stack.instances[0].frozen)
    ask(stack, "stop", {})
    wait_until(lambda: ask(stack, "state")["show"]["over"])
    assert not stack.instances[0].frozen


def test_the_terminal_tells_the_same_scene() -> None:
    """In the language asked for; a key goes on unless it was pressed before; it exits with 0."""
    command = [sys.executable, "-m", "loadtest", "scene", "kill", "--language", "zh"]
    with Terminal(command, dict(os.environ)) as screen:
        screen.type(" ")
        for phase in (1, 2):
            assert screen.shows(TEXTS["zh"]["enter"], times=phase), screen
            screen.type(" ")
        assert screen.shows("EXACT"), screen
        assert screen.process.wait(WAIT_S) == 0
    assert "kill -9" in screen.screen


def test_every_text_is_there_in_both_languages() -> None:
    """What scenes, page and terminal say has a text in English and Chinese, with the same values."""
    sources = "".join(path.read_text(encoding="utf-8") for path in STATIC.parent.glob("*.py"))
    told = re.findall(r'"((?:pause|kill|etcd|redis)\.\w+)"', sources)
    asked = re.findall(r'data-text="(\w+)"', (STATIC / "scenes.html").read_text(encoding="utf-8"))
    own = {"too_slow", "cannot", "away", "token", "colon", "enter", "starting", *(f"scene.{scene}" for scene in SCENES)}
    own |= {"cannot.elsewhere", "cannot.one_instance", "status.401", "status.409"}
    own |= {f"outcome.{outcome.value}" for outcome in Outcome}
    own |= {f"kind.{kind}" for kind in ("exact", "oversold", "undersold", "flawed")}
    assert set(TEXTS["en"]) == set(TEXTS["zh"]) == {*told, *asked, *own}
    for key, english in TEXTS["en"].items():
        assert set(re.findall(r"\{\w+\}", english)) == set(re.findall(r"\{\w+\}", TEXTS["zh"][key])), key
