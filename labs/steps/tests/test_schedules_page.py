"""The page of the schedules: the graph, an order in words, the slow motion of an end, and the link to its steps."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.guards import guards
from app.telemetry.guard_lines import GuardLines
from labs.steps.schedules.explorer import NO_FAULT, Explorer
from labs.steps.schedules.files import LABS
from labs.steps.schedules.results import Count, Exploration, packed
from labs.steps.schedules.world import World
from loadtest.stack.apps import Board
from loadtest.stack.stack import Stack
from tests.support.looking import PATIENCE_MS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(240)]


def explored(world: World, guard: str) -> Exploration:
    """All orders of a guard without a fault."""
    kind = guards()[guard]
    explorer, began = Explorer(world, kind), time.monotonic()
    for _ in explorer.explore():
        pass
    found = Exploration(guard, kind.promise.value, world.granularity, 1, 2, "2030-01-01T00:00:00+00:00")
    found.counts = [Count(guard, found.promise, NO_FAULT.name)]
    found.counts[0].note(explorer.graph, explorer.schedules, time.monotonic() - began)
    found.graphs = [packed(explorer.graph, explorer.schedules)]
    found.source = GuardLines(kind.buy).source
    return found


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was tried of `none`, and of `redis-lua`, of which an end is missing: it was cut there."""
    report = tmp_path_factory.mktemp("reports") / "2030-01-01_00-00-00"
    report.mkdir()
    with World(tmp_path_factory.mktemp("w")) as world:
        explored(world, "none").write(report)
        right = explored(world, "redis-lua")
    (graph,) = right.graphs
    graph["cut"] = [0]
    right.counts[0].cut = 1
    right.write(report)
    return report.parent


@pytest.fixture(scope="module")
def board(reports: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    """A board that has these reports, and two instances."""
    env = {"FLASHSALE_REPORTS": str(reports)}
    with Stack(tmp_path_factory.mktemp("stack"), ports="free", board=True, env=env) as stack:
        assert stack.board is not None
        yield stack.board


@pytest.fixture
def page(chromium: Browser, board: Board) -> Iterator[Any]:
    """Its page; the browser may not have complained."""
    complaints: list[str] = []
    page: Page = chromium.new_page(locale="en")
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{board.url}/schedules")
    page.wait_for_selector("#graph svg")
    yield page
    page.close()
    assert complaints == []


def kept(reports: Path, guard: str) -> dict[str, Any]:
    (path,) = reports.glob(f"*/schedules-{guard}.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_an_order_is_seen_played_and_stepped_to_the_same_end(page: Page, reports: Path) -> None:
    """The shortest wrong order is chosen first; it plays with the guard's lines, and sells twice by hand as well."""
    (count,) = kept(reports, "none")["counts"]
    assert page.inner_text("#summary") == (
        f"{count['wrong']} of {count['orders']} orders end wrongly, through {count['states']} states. "
        f"Different ends: {count['ends']}, wrong: {count['wrong_ends']}."
    )
    assert page.inner_text("#order li:nth-child(2)") == "A read.lua"
    assert page.inner_text("#ending") == "the item is sold twice, an update is lost"
    page.click("#play:has-text('Play it')")
    page.wait_for_selector(".slow-dialog .stage:has-text('reading = stock.read(section)')")
    page.click(".slow-dialog [data-do=lost]")
    page.wait_for_selector(".slow-dialog .sentence:has-text('lost updates: 1')")
    page.keyboard.press("Escape")
    page.click("#steps")
    for _ in count["shortest"].split("."):
        page.click("#next-move:enabled")
    page.wait_for_selector("#result:has-text('Sold twice: A and B both have the one item')")
    page.wait_for_selector("#next-move:has-text('The schedule is over.')")


def test_a_click_on_any_state_leads_to_an_end_a_wrong_one_first(page: Page, reports: Path) -> None:
    """Red are the states from which all ends are wrong, and green those from which none is; the link follows."""
    file = kept(reports, "none")
    (graph,) = file["graphs"]
    wrong = {int(number): any(film[2]) for number, film in graph["ends"].items()}

    def ends(state: int) -> set[bool]:
        return {wrong[state]} if state in wrong else set().union(*map(ends, graph["moves"][state].values()))

    boxes = page.locator("#graph rect")
    assert boxes.count() == len(graph["states"])
    for state in range(len(graph["states"])):
        tone = {frozenset({True}): "bad", frozenset({False}): "good"}.get(frozenset(ends(state)), "")
        box = boxes.nth(state)
        box.click()
        assert (box.get_attribute("class") or "").split()[:1] == ([tone] if tone else ["way"]), state
        assert page.get_attribute("#ending", "data-tone") == ("bad" if True in ends(state) else "good"), state
        path = (page.get_attribute("#steps", "href") or "").rpartition("&grain=commands&schedule=")[2]
        passed, at = {0}, 0
        for move in path.split("."):
            at = graph["moves"][at][move]
            passed.add(at)
        assert state in passed
        assert at in wrong


def test_what_was_cut_is_said(page: Page) -> None:
    """A guard that was not tried to the end is not shown as right, nor is the state where something is missing."""
    page.click("#guards button[value=redis-lua]")
    page.wait_for_selector("#summary[data-tone=warn]:has-text('Not complete: in 1 states something was not tried.')")
    assert page.locator("#graph rect.cut").count() == 1
    assert page.locator("#graph rect.cut.good").count() == 0


def test_a_board_that_tried_nothing_shows_what_came_with_the_repository(page: Page, reports: Path) -> None:
    """Every guard of it is drawn, with the day of its own file; the text is gone once the board has tried something."""
    page.wait_for_selector("#came", state="hidden")
    (report,) = reports.iterdir()
    away = report.rename(reports.with_name("away"))
    try:
        page.reload()
        files = {path.stem.removeprefix("schedules-"): path for path in LABS.glob("*/recorded/*.json")}
        assert {"none", "etcd", "redis-lua"} <= {*files}
        for guard, path in files.items():
            file = json.loads(path.read_text(encoding="utf-8"))
            page.click(f"#guards button[value={guard}]")
            page.wait_for_selector(f"#steps[href*='guard={guard}&']")
            assert page.locator("#graph rect").count() == len(file["graphs"][0]["states"])
            day = datetime.fromisoformat(file["started"]).astimezone()
            assert page.inner_text("#came").endswith(f"tried on {day:%B} {day.day}, {day.year}, on real servers.")
        assert page.locator("#guards button").count() == len(files)
        assert page.evaluate("fetch('/schedules/recorded/nowhere').then(({ status }) => status)") == 404
    finally:
        away.rename(report)
