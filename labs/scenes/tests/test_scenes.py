"""The scenes, on a stack with its board: each ends with its sentence, and leaves everything running."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import pytest
import redis
import requests

from app.board import create_board
from app.board.settings import BoardSettings
from app.contract.keys import Keys
from app.contract.orders import Order
from app.contract.section_log import LoggedSection, SectionTail
from labs.scenes.commands import TEXTS
from labs.scenes.stage import ITEMS
from loadtest.stack.stack import Stack
from tests.support.serving import answering
from tests.support.terminal import WAIT_S, Terminal
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two shops with their board, and a lease that ends soon."""
    env = {"FLASHSALE_LEASE_TTL": "2", "FLASHSALE_THREADS": "16", "FLASHSALE_ITEMS": str(ITEMS)}
    with Stack(tmp_path_factory.mktemp("stack"), ports="free", board=True, durable=True, env=env) as stack:
        yield stack


def ask(stack: Stack, path: str, body: dict[str, Any] | None = None) -> Any:
    """What the board answers."""
    assert stack.board is not None
    url = urljoin(f"{stack.board.url}/scenes/", path)
    answer = requests.request("GET" if body is None else "POST", url, json=body, timeout=10)
    answer.raise_for_status()
    return answer.json()


def play(stack: Stack, scene: str, *, speaks_s: float = 0.0) -> dict[str, Any]:
    """The scene to its end, with a teacher who speaks for so long at each stop."""
    ask(stack, "start", {"scene": scene})

    def is_over() -> bool:
        show = ask(stack, "state")["show"]
        if show["waits"]:
            time.sleep(speaks_s)  # not an event: the teacher
            ask(stack, "next", {})
        return bool(show["over"])

    wait_until(is_over, timeout=90 + 3 * speaks_s)
    show: dict[str, Any] = ask(stack, "state")["show"]
    return show


PAUSED = [
    ("etcd-unfenced", "pause.sold_twice", "oversold"),
    ("etcd-checked", "pause.sold_twice", "oversold"),
    ("etcd", "pause.refused", "exact"),
]


def assert_ended(stack: Stack, show: dict[str, Any], endings: list[tuple[str, str, str]]) -> None:
    """Everything that is said has its text, the results are these, and all processes run again."""
    assert show["problem"] is None
    assert [(each["guard"], each["text"], each["kind"]) for each in show["results"]] == endings
    marks = [marker for column in show["columns"] for marker in column["markers"]]
    for each in [*show["phases"], *show["results"], *marks]:
        assert TEXTS["en"][each["text"]].format(**each["values"])
    assert all(process.running and not process.frozen for process in stack.processes)


def said(show: dict[str, Any], text: str) -> dict[str, Any]:
    """The values of a phase."""
    return next(dict(each["values"]) for each in show["phases"] if each["text"] == text)


@pytest.mark.slow
def test_the_next_one_sells_when_the_holder_is_killed(stack: Stack) -> None:
    """Once, and after the lease of the dead one."""
    show = play(stack, "kill")
    assert_ended(stack, show, [("etcd", "kill.sold_once", "exact")])
    assert 1.0 < float(said(show, "kill.start")["waited"]) < 10.0, "with a TTL of 2 s"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_third_act_says_what_section_log_and_ledger_show(stack: Stack) -> None:
    """However long the teacher speaks: tokens, their order, who bought, how long was waited, and each guard's lines."""
    tail, speaks_s = SectionTail(stack.section_log, from_now=True), 3.0  # longer than the lease
    show = play(stack, "pause", speaks_s=speaks_s)
    assert_ended(stack, show, PAUSED)
    assert_lines_are_shown(show["columns"])
    sections: dict[tuple[str, str], LoggedSection] = {(each.buyer, each.item): each for each in tail.poll()}
    for item, result in zip("123", show["results"], strict=True):
        ada, bob, values = sections["ada", item], sections["bob", item], result["values"]
        assert (ada.guard, bob.guard) == (result["guard"], result["guard"])
        assert (ada.token, bob.token) == (values["token"], values["later"])
        assert ada.read_at is not None
        assert ada.commit_at is not None
        assert ada.read_at < bob.entered < ada.commit_at, "Bob had the lock between Ada's read and her write"
        with redis.Redis.from_url(stack.redis.url) as client:
            rows = [Order.decode(row) for row in client.lrange(Keys("demo", item).orders, 0, -1)]
        told = [("bob", bob.token), ("ada", ada.token)][: 1 + values["n"]]
        assert [(row.buyer, row.token) for row in rows] == told
        assert ada.outcome == ("sold" if values["n"] else "lock_lost")
    waited, slept = (float(said(show, "pause.sold")["waited"]), float(said(show, "pause.awake")["slept"]))
    read = max(sections["ada", item].read_at or 0 for item in "123")
    late = max(sections["bob", item].entered for item in "123")
    wrote = min(sections["ada", item].commit_at or 0 for item in "123")
    assert waited <= (late - read) / 1e9 + 0.05, "from the freeze, which came after the read"
    assert waited + speaks_s <= slept + 0.05
    assert slept <= (wrote - read) / 1e9 + 0.05


def assert_lines_are_shown(columns: list[dict[str, Any]]) -> None:
    """Three columns, from the lock to the write; the second has one line more, the third a fence."""
    texts = [column["source"]["text"] for column in columns]
    assert ["section.ensure()" in text for text in texts] == [False, True, True]
    assert ["fence=" in text for text in texts] == [False, False, True]
    for column in columns:
        lines, first = column["source"]["text"].splitlines(), column["source"]["first_line"]
        assert ["stock.write(" in lines[marker["line"] - first] for marker in column["markers"]] == [True, True]


@pytest.mark.slow
def test_a_scene_that_is_stopped_leaves_nothing_frozen(stack: Stack) -> None:
    """A second one, or a rush, has to wait for its end; then the frozen holder goes on, and nothing of it was sold."""
    ask(stack, "start", {"scene": "pause"})
    wait_until(lambda: ask(stack, "state")["show"]["waits"])
    for change in ("start", "/control/rush", "/control/reset"):
        with pytest.raises(requests.HTTPError, match="409"):
            ask(stack, change, {"scene": "kill"})
    assert stack.instances[0].frozen
    ask(stack, "stop", {})
    wait_until(lambda: ask(stack, "state")["show"]["over"])
    assert not stack.instances[0].frozen
    assert requests.get(f"{stack.instances[0].url}/stock", timeout=10).json()["orders"] == 1, "Bob's"


@pytest.mark.slow
def test_a_board_that_is_killed_in_a_scene_leaves_nothing_frozen(stack: Stack) -> None:
    """The instance goes on at once, its purchases give up, and the next board plays the scene."""
    assert stack.board is not None
    ask(stack, "start", {"scene": "pause"})
    wait_until(lambda: stack.instances[0].frozen)
    stack.board.kill()
    wait_until(lambda: not stack.instances[0].frozen)
    stack.board.start()
    assert_ended(stack, play(stack, "pause"), PAUSED)


def test_no_scene_begins_in_a_rush() -> None:
    """Its sale would be reset; the board says so, and plays nothing. Another site may link to the page alone."""
    with answering(lambda request, body: {"state": "running"}) as locust:
        board = create_board(BoardSettings().model_copy(update={"locust": locust})).test_client()
        refused = board.post("/scenes/start", json={"scene": "pause"})
        assert (refused.status_code, refused.get_json()["type"].split(":")[-1]) == (409, "rush_running")
        assert board.get("/scenes/state").get_json()["show"] is None
    assert "/scenes" in [link["path"] for link in board.get("/setup").get_json()["links"]]
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    assert [board.get(path, headers=elsewhere).status_code for path in ("/scenes", "/scenes/state")] == [200, 403]


@pytest.mark.slow
def test_the_terminal_tells_the_same_scene() -> None:
    """In the language asked for; a key goes on unless it was pressed before; it exits with 0."""
    command = [sys.executable, "-m", "loadtest", "scene", "pause", "--language", "zh"]
    with Terminal(command, dict(os.environ)) as screen:
        assert screen.shows("Ada"), screen
        screen.type(" ")
        assert screen.shows("SIGSTOP"), screen
        assert screen.shows(TEXTS["zh"]["enter"]), screen
        wait_until(lambda: screen.reads_keys)
        screen.type(" ")
        assert screen.shows("EXACT"), screen
        assert screen.process.wait(WAIT_S) == 0
    assert screen.screen.count("OVERSOLD") == 2
