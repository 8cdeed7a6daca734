"""The page of the schedules: the tree, the slow motion of one, and the link to its steps, which end alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.guards import guards
from labs.steps.schedules.explorer import Explorer
from labs.steps.schedules.results import Count, Exploration, row_of
from labs.steps.schedules.schedule import Fault, moves_of
from labs.steps.schedules.world import World
from loadtest.stack.apps import Board
from loadtest.stack.stack import Stack
from tests.support.looking import PATIENCE_MS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

RACE = "A.A.A.A.B.B.B.B.B.B.A.A"
PATHS = ["A.A.A.A.A.A.B.B.B.B", RACE, "A.A.B.B.A.A.A.A.B.B.B.B"]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three schedules of the guard `none`, two of which sell twice."""
    found = Exploration("none", guards()["none"].promise.value, 1, 2, "2030-01-01T00:00:00+00:00")
    count = Count("none", found.promise, Fault.NONE)
    with World(tmp_path_factory.mktemp("w")) as world:
        for path in PATHS:
            schedule = Explorer(world, "none").replay(moves_of(path))
            count.add(schedule)
            found.rows.append(row_of(schedule))
        found.source = world.source("none")
    found.counts = [count]
    report = tmp_path_factory.mktemp("reports") / "2030-01-01_00-00-00"
    report.mkdir()
    found.write(report)
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
    page.wait_for_selector("#tree svg")
    yield page
    page.close()
    assert complaints == []


@pytest.mark.slow
def test_a_schedule_is_seen_played_and_stepped_to_the_same_end(page: Page) -> None:
    """The tree has a leaf for each; the shortest plays with the guard's lines, and sells twice by hand as well."""
    assert page.inner_text("#summary") == "2 of 3 orders end wrongly."
    assert page.inner_text("#line").endswith("the item is sold twice, an update is lost")
    assert page.locator("#tree rect.bad").count() > page.locator("#tree rect.good").count() > 0
    page.click("#play")
    page.wait_for_selector(".slow-dialog .stage:has-text('reading = stock.read(section)')")
    page.click(".slow-dialog [data-do=lost]")
    page.wait_for_selector(".slow-dialog .sentence:has-text('lost updates: 1')")
    page.keyboard.press("Escape")
    page.click("#steps")
    for _ in RACE.split("."):
        page.click("#next-move:enabled")
    page.wait_for_selector("#result:has-text('Sold twice: A and B both have the one item')")
    page.wait_for_selector("#next-move:has-text('The schedule is over.')")


def test_the_page_speaks_chinese_and_follows_the_keys(page: Page) -> None:
    """An arrow key chooses the next schedule, whose moves are in the link."""
    page.click("#language")
    page.wait_for_selector("#summary:has-text('3 种顺序中有 2 种出错')")
    before = page.get_attribute("#steps", "href")
    page.focus("#tree")
    page.keyboard.press("ArrowDown")
    assert page.get_attribute("#steps", "href") != before
