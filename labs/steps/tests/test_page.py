"""The levels of "you are the scheduler", solved by clicks against a real stack of two instances."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from app.guards import guards
from labs.steps.mistakes import mistakes
from labs.steps.schedules.explorer import NO_FAULT, budget_of
from labs.steps.schedules.files import recorded
from loadtest.stack.stack import Stack
from tests.support.looking import PATIENCE_MS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(180)]

SOLD_TWICE = "Sold twice: A and B both have the one item, and the counter says 0."
AFTER_A_FREEZE = {"etcd-checked": SOLD_TWICE, "etcd": "The late write of A was refused: token"}


@pytest.fixture(scope="module")
def stage_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two instances whose leases are short, and the board."""
    env = {"FLASHSALE_THREADS": "8", "FLASHSALE_LEASE_TTL": "2"}
    with Stack(tmp_path_factory.mktemp("stack"), ports="free", board=True, env=env) as stack:
        yield stack


@pytest.fixture
def open_page(chromium: Browser, stage_stack: Stack) -> Iterator[Any]:
    """Opens the page for another viewer; at the end, the browser may not have complained."""
    complaints: list[str] = []
    pages: list[Page] = []

    def open_page(locale: str = "en", link: str = "") -> Page:
        page = chromium.new_page(locale=locale)
        pages.append(page)
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.extend([f"{said.text} {said.location}"] * (said.type == "error")))
        assert stage_stack.board is not None
        page.goto(f"{stage_stack.board.url}/steps{link}")
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []


def ask(stack: Stack, path: str, body: bytes | None = None) -> list[dict[str, Any]]:
    """The instances, as the board tells of them."""
    assert stack.board is not None
    request = urllib.request.Request(f"{stack.board.url}/steps/{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        instances: list[dict[str, Any]] = json.load(response)["instances"]
        return instances


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


def test_a_script_leaves_nothing_to_step_into(open_page: Any) -> None:
    """The level is solved, and its item is sold once."""
    page = open_page()
    begin(page, "redis-lua")
    step(page, *"AABBBBAA")
    wait_result(page, "nothing to step into", "redis-lua")
    assert page.inner_text(".stage-figures div:nth-child(2) dd") == "1"


@pytest.mark.parametrize("level", AFTER_A_FREEZE)
def test_a_level_needs_a_holder_that_outlives_its_lease(open_page: Any, level: str) -> None:
    """A stops before its write, is frozen, and its lease counts down; B buys, and A's late write is sold, or refused.

    The seconds are etcd's; when the lease has ended, the page says that. The focus stays on the button.
    """
    page = open_page()
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


def test_the_page_opens_with_the_first_level(open_page: Any, stage_stack: Stack) -> None:
    """Opened afresh, level 1 stands ready; it sells twice, and leads on. What another site links to begins nothing."""
    for instance in stage_stack.instances:
        urllib.request.urlopen(urllib.request.Request(f"{instance.url}/steps", method="DELETE"), timeout=30).close()
    page = open_page()
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
    request = urllib.request.Request(f"{stage_stack.board.url}/steps", headers={"Sec-Fetch-Site": "cross-site"})
    with urllib.request.urlopen(request, timeout=30) as response:
        assert b'data-begins="false"' in response.read()


def follow(page: Page, path: str) -> None:
    """Press "Next" for every move of the schedule in the address, and wait for its end."""
    for _ in path.split("."):
        page.click("#next-move:enabled")
    page.wait_for_selector("#next-move:has-text('The schedule is over.')")


def test_a_purchase_is_stepped_by_its_commands(open_page: Any) -> None:
    """The choice is on the page; the command that is about to be sent stands beneath the line and in the panel."""
    page = open_page()
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
def test_a_mistake_is_a_level_and_its_schedule_ends_as_the_command_said(open_page: Any, guard: str) -> None:
    """The link has the grain; step by step, on real servers, the shortest order that breaks it sells the item twice."""
    (count,) = json.loads(recorded()[guard].read_text(encoding="utf-8"))["counts"]
    page = open_page(link=f"#guard={guard}&grain=commands&schedule={count['shortest']}")
    page.wait_for_selector(f"#mistakes button[value={guard}][aria-current=true]")
    page.wait_for_selector("#task a[href^='https:']")
    follow(page, count["shortest"])
    wait_result(page, "Sold twice: A and B both have the one item", guard)
    page.click("#next-level")
    page.wait_for_function("document.querySelector('#grain').value === 'commands'")


def test_a_death_is_left_to_the_machine(open_page: Any) -> None:
    """What no button of the page can do is said before the first move."""
    page = open_page(link="#guard=none&grain=commands&schedule=A.A-kill-sent.B")
    page.wait_for_selector(".schedule:has-text('only make schedules can make: kill A behind its command')")
    assert page.is_hidden("#next-move")


@pytest.mark.skipif("setnx-then-expire" not in mistakes(), reason="labs/mistakes is not there")
def test_a_level_begins_clean_whatever_the_one_before_has_left(open_page: Any, stage_stack: Stack) -> None:
    """A lock without an end, of a mistake that was left half-way, stops nobody in the next level."""
    page = open_page(link="#guard=setnx-then-expire&grain=commands&schedule=A.A.B")
    for _ in "AA":
        page.click("#next-move:enabled")
    page.wait_for_selector(".purchase:has-text('A is about to send PEXPIRE lock')")
    page.click("#mistakes button[value=never-expires]")
    for command in ("SET lock", "read.lua", "write.lua"):
        page.click("[data-do='step A']:not([aria-disabled=true])")
        page.wait_for_selector(f".purchase:has-text('A is about to send {command}')")


ROWS = """[...document.querySelectorAll('.code-lines li')].map((row) => ({ height: row.offsetHeight,
  beyond: row.scrollWidth - row.clientWidth, size: parseFloat(getComputedStyle(row).fontSize) }))"""


def test_every_line_of_every_guard_is_one_line_at_1024_pixels(open_page: Any, stage_stack: Stack) -> None:
    """Of 18 pixels at least; no line of code is wrapped or cut, and none has its comment on a second line."""
    page = open_page()
    page.set_viewport_size({"width": 1024, "height": 768})
    for guard in guards():
        ask(stage_stack, "begin", json.dumps({"guard": guard}).encode())
        page.wait_for_selector(f".code small:has-text('/{guard.replace('-', '_')}.py')")
        page.wait_for_selector(".command", state="detached")
        rows = page.evaluate(ROWS)
        assert len({row["height"] for row in rows}) == 1, (guard, rows)
        assert all(row["beyond"] == 0 and row["size"] >= 18 for row in rows), (guard, rows)


def test_a_third_purchase_reads_what_is_left_and_the_page_speaks_chinese(open_page: Any) -> None:
    """C joins, finds the item sold, and is told so in the language of the browser."""
    page = open_page("zh-CN")
    begin(page, "none")
    page.click("#add:not([aria-disabled=true])")
    page.wait_for_selector("[data-do='step C']")
    step(page, *"AAAAAACCCC")
    page.wait_for_selector(".purchase:has-text('C 得知已售罄')")
    assert page.inner_text("h1") == "你来当调度器"
