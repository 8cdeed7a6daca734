"""The pages of steps and schedules, on the board of a real stack of two instances.

The levels of "you are the scheduler" are solved by clicks; an order is seen, played, and stepped to its end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from app.guards import guards
from labs.steps.guard_files import GuardFile
from labs.steps.mistakes import mistakes
from labs.steps.schedules.explorations import explored
from labs.steps.schedules.explorer import NO_FAULT, Task, budget_of
from labs.steps.schedules.files import recorded
from labs.steps.schedules.results import Exploration, packed
from labs.steps.schedules.world import World
from labs.steps.stepped import COMMANDS
from loadtest.stack.stack import Stack
from tests.support.browser_fixtures import Open, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(180)]

SOLD_TWICE = "Sold twice: A and B both have the one item, and the counter says 0."
AFTER_A_FREEZE = {"etcd-checked": SOLD_TWICE, "etcd": "The late write of A was refused: token"}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was tried of `none`, and of `redis-lua`, of which an end is missing: it was cut there."""
    report = tmp_path_factory.mktemp("reports") / "2030-01-01_00-00-00"
    report.mkdir()
    with World(tmp_path_factory.mktemp("w")) as world:
        for guard in ("none", "redis-lua"):
            *_, found = explored(world, Task(GuardFile.of(guards()[guard])))
            assert found.explorer is not None
            whole = Exploration(guard, found.count.promise, COMMANDS, 1, 2, "2030-01-01T00:00:00+00:00")
            graph = packed(found.explorer.graph, found.explorer.schedules)
            if guard == "redis-lua":
                graph["cut"], found.count.cut = [0], 1
            whole.add(found.count, graph)
            whole.source = found.source
            whole.write(report)
    return report.parent


@pytest.fixture(scope="module")
def stage_stack(reports: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two instances whose leases are short, and the board, which has these reports."""
    env = {"FLASHSALE_THREADS": "8", "FLASHSALE_LEASE_TTL": "2", "FLASHSALE_REPORTS": str(reports)}
    with Stack(tmp_path_factory.mktemp("stack"), ports="free", board=True, env=env) as stack:
        yield stack


@pytest.fixture
def stage(open_page: Open, stage_stack: Stack) -> Open:
    """Opens the page of the steps, in English unless told otherwise, or a link to it."""
    assert stage_stack.board is not None
    url = stage_stack.board.url
    return lambda link="", locale="en": open_page(f"{url}/steps{link}", locale=locale)


@pytest.fixture
def page(open_page: Open, stage_stack: Stack) -> Page:
    """The page of the schedules."""
    assert stage_stack.board is not None
    page = open_page(f"{stage_stack.board.url}/schedules", locale="en")
    page.wait_for_selector("#graph svg")
    return page


def begin(page: Page, level: str) -> None:
    """Choose the level, by its points, whatever another viewer has left; both purchases stand before the guard."""
    page.click(f"#levels button[value={level}]")
    page.select_option("#grain", "points")
    for buyer in "AB":
        page.wait_for_selector(f"[data-do='step {buyer}']:not([aria-disabled=true])")


def step(page: Page, *buyers: str) -> None:
    """Click "Step A" or "Step B" as soon as it can be pressed, one after the other."""
    for buyer in buyers:
        text = page.inner_text(f".purchase:has([data-do='step {buyer}']) p")
        page.click(f"[data-do='step {buyer}']:not([aria-disabled=true])")
        page.wait_for_function(
            "([buyer, before]) => [...document.querySelectorAll('.purchase')].find("
            "(row) => row.querySelector(`[data-do='step ${buyer}']`)).lastChild.textContent !== before",
            arg=[buyer, text],
        )


def wait_result(page: Page, text: str, level: str) -> None:
    """The page says it in green, and the level is solved."""
    page.wait_for_selector(f"#result[data-tone=good]:has-text('{text}')")
    page.wait_for_selector(f".levels button[value={level}][data-solved=true]")


@pytest.mark.parametrize("level", AFTER_A_FREEZE)
def test_a_level_needs_a_holder_that_outlives_its_lease(stage: Open, level: str) -> None:
    """A stops before its write, is frozen, and its lease counts down; B buys, and A's late write is sold, or refused.

    The seconds are etcd's; when the lease has ended, the page says that. The focus stays on the button.
    """
    page = stage()
    begin(page, level)
    step(page, *"AAAA")
    page.click("[data-do='step B']")
    page.wait_for_selector(".purchase:has-text('B is queued behind A, token')")
    page.click("[data-do='freeze A']")
    page.wait_for_selector(".purchase:has-text('A is frozen where it is about to write 0')")
    page.wait_for_selector(".purchase:has-text('its lease has')")
    page.wait_for_selector(".purchase:has-text('its lease has ended')")
    assert page.evaluate("document.activeElement.dataset.do") == "freeze A"
    step(page, *"BBBBB")
    page.click("[data-do='freeze A']")
    step(page, *"AA")
    wait_result(page, AFTER_A_FREEZE[level], level)


def test_the_page_opens_with_the_first_level(stage: Open, stage_stack: Stack) -> None:
    """Opened afresh, level 1 stands ready; it sells twice, and leads on. What another site links to begins nothing."""
    for instance in stage_stack.instances:
        requests.delete(f"{instance.url}/steps", timeout=30)
    page = stage()
    page.wait_for_selector("#levels button[value=none][aria-current=true]")
    step(page, *"AAAABBBBBBAA")
    wait_result(page, SOLD_TWICE, "none")
    assert page.inner_text(".stage-figures div:nth-child(2) dd") == "2"
    page.focus("#next-level")
    page.keyboard.press("Enter")
    page.wait_for_selector("#levels button[value=thread][aria-current=true]")
    page.wait_for_selector(".code small:has-text('app/guards/thread.py')")
    page.wait_for_selector("[data-do='step A']:focus")
    page.keyboard.press("a")
    page.wait_for_selector(".purchase:has-text('A is inside'):has([data-do='step A']:not([aria-disabled=true]))")
    page.keyboard.press(" ")
    page.wait_for_selector(".purchase:has-text('A read 1')")
    assert stage_stack.board is not None
    linked = requests.get(f"{stage_stack.board.url}/steps", headers={"Sec-Fetch-Site": "cross-site"}, timeout=30)
    assert 'data-begins="false"' in linked.text


def test_a_purchase_is_stepped_by_its_commands(stage: Open) -> None:
    """The choice is on the page; the command that is about to be sent stands beneath the line and in the panel."""
    page = stage()
    begin(page, "none")
    page.select_option("#grain", "commands")
    page.wait_for_selector(".purchase:has-text('B stands before the guard')")
    step(page, "A")
    page.wait_for_selector(".purchase:has-text('A is about to send read.lua')")
    page.wait_for_selector("li .command:has-text('A EVALSHA read.lua')")
    assert "stock.read" in page.inner_text("li:has(.command) code")
    step(page, *"BABBA")
    wait_result(page, SOLD_TWICE, "none")


@pytest.mark.parametrize("guard", [name for name, kind in mistakes().items() if budget_of(kind) == NO_FAULT])
def test_a_mistake_is_a_level_and_its_schedule_ends_as_the_command_said(stage: Open, guard: str) -> None:
    """The link has the grain; step by step, on real servers, the shortest order that breaks it sells the item twice."""
    (count,) = json.loads(recorded()[guard].read_text(encoding="utf-8"))["counts"]
    page = stage(f"#guard={guard}&grain=commands&schedule={count['shortest']}")
    page.wait_for_selector(f"#mistakes button[value={guard}][aria-current=true]")
    page.wait_for_selector("#task a[href^='https:']")
    for _ in count["shortest"].split("."):
        page.click("#next-move:enabled")
    page.wait_for_selector("#next-move:has-text('The schedule is over.')")
    wait_result(page, "Sold twice: A and B both have the one item", guard)
    page.click("#next-level")
    page.wait_for_function("document.querySelector('#grain').value === 'commands'")


def test_a_death_is_left_to_the_machine(stage: Open) -> None:
    """What no button of the page can do is said before the first move."""
    page = stage("#guard=none&grain=commands&schedule=A.A-kill-sent.B")
    page.wait_for_selector(".schedule:has-text('only make schedules can make: kill A behind its command')")
    assert page.is_hidden("#next-move")


@pytest.mark.skipif("setnx-then-expire" not in mistakes(), reason="labs/mistakes is not there")
def test_a_level_begins_clean_whatever_the_one_before_has_left(stage: Open) -> None:
    """A lock without an end, of a mistake that was left half-way, stops nobody in the next level."""
    page = stage("#guard=setnx-then-expire&grain=commands&schedule=A.A.B")
    for _ in "AA":
        page.click("#next-move:enabled")
    page.wait_for_selector(".purchase:has-text('A is about to send PEXPIRE lock')")
    page.click("#mistakes button[value=never-expires]")
    for command in ("SET lock", "read.lua", "write.lua"):
        page.click("[data-do='step A']:not([aria-disabled=true])")
        page.wait_for_selector(f".purchase:has-text('A is about to send {command}')")


ROWS = """[...document.querySelectorAll('.code-lines li')].map((row) => ({ height: row.offsetHeight,
  beyond: row.scrollWidth - row.clientWidth, size: parseFloat(getComputedStyle(row).fontSize) }))"""


def test_every_line_of_every_guard_is_one_line_at_1024_pixels(stage: Open) -> None:
    """Of 18 pixels at least; no line of code is wrapped or cut, and none has its comment on a second line."""
    page = stage()
    page.set_viewport_size({"width": 1024, "height": 768})
    for guard in guards():
        page.request.post(f"{page.evaluate('location.origin')}/steps/begin", data={"guard": guard})
        page.wait_for_selector(f".code small:has-text('/{guard.replace('-', '_')}.py')")
        page.wait_for_selector(".command", state="detached")
        rows = page.evaluate(ROWS)
        assert len({row["height"] for row in rows}) == 1, (guard, rows)
        assert all(row["beyond"] == 0 and row["size"] >= 18 for row in rows), (guard, rows)


def test_a_third_purchase_reads_what_is_left_and_the_page_speaks_chinese(stage: Open) -> None:
    """C joins, finds the item sold, and is told so in the language of the browser."""
    page = stage(locale="zh-CN")
    begin(page, "none")
    page.click("#add:not([aria-disabled=true])")
    page.wait_for_selector("[data-do='step C']")
    step(page, *"AAAAAACCCC")
    page.wait_for_selector(".purchase:has-text('C 得知已售罄')")
    assert page.inner_text("h1") == "你来当调度器"


def kept(reports: Path, guard: str) -> dict[str, Any]:
    (path,) = reports.glob(f"*/schedules-{guard}.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_an_order_is_seen_and_played(page: Page, reports: Path) -> None:
    """The shortest wrong order is chosen first, and plays with the guard's lines."""
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
        files = recorded()
        assert {"none", "etcd", "redis-lua"} <= {*files}
        for guard, path in files.items():
            file = json.loads(path.read_text(encoding="utf-8"))
            page.click(f"#guards button[value={guard}]")
            page.wait_for_selector(f"#steps[href*='guard={guard}&']")
            assert page.locator("#graph rect").count() == len(file["graphs"][0]["states"])
            day = datetime.fromisoformat(file["started"]).astimezone()
            assert page.inner_text("#came").endswith(f"tried on {day:%B} {day.day}, {day.year}, on real servers.")
        assert page.locator("#guards button").count() == len(files)
        assert page.request.get(f"{page.evaluate('location.origin')}/schedules/recorded/nowhere").status == 404
    finally:
        away.rename(report)
