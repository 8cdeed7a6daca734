"""The whole room in a network of its own: phones and browsers over its address, the stage, judged by the ledger."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from labs.room.tests.network import ADDRESS, Network
from labs.room.tests.rooms import Judge, Phone, ask_board, crowd_of
from labs.room.up import RoomServer, add_room
from loadtest.stack.stack import Stack
from tests.support.looking import PATIENCE_MS
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PHONES, STOCK, PIN = 30, 15, "4711"
NAMES = ["Ada", "<b>Bob</b>", "李伟", "Dora", "Emil"]
ANSWERED = "#screen:is([data-state=sold], [data-state=clash], [data-state=out])"
ENV = {"FLASHSALE_LEASE_TTL": "2", "FLASHSALE_THREADS": "64"}


@pytest.fixture(scope="module")
def stack(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two shops, the board, and the room with a PIN at the network's address."""
    stack = Stack(tmp_path_factory.mktemp("stack"), ports="free", board=True, env=ENV)
    add_room(stack, ADDRESS, port=0, pin=PIN)
    with network.running(stack):
        yield stack


@pytest.fixture(scope="module")
def phones(network: Network, room: RoomServer) -> list[Phone]:
    """Phones that have joined."""
    return network.run(crowd_of, room.url, PHONES, pin=PIN)


def begin(network: Network, stack: Stack, guard: str, **sale: int) -> int:
    """Begin a sale on the board; its number."""
    asked = {"guard": guard, "hold_ms": 20, "stock": STOCK, "opens_in_s": 0, "buyers": 0, **sale}
    network.run(ask_board, stack, "/room/begin", asked)
    return int(network.run(ask_board, stack, "/room/state")["sale"]["number"])


def test_the_network_reaches_the_room_alone(network: Network, stack: Stack, room: RoomServer) -> None:
    """Of all that listens, the room's port alone is at the network's address; all else is on loopback."""
    listed = network.run(subprocess.run, ["ss", "-Htln"], capture_output=True, text=True, check=True)
    listening = {line.split()[3] for line in listed.stdout.splitlines()}
    assert f"{ADDRESS}:{room.port}" in listening
    elsewhere = {each for each in listening if not re.match(r"127\.0\.0\.|\[::1\]", each)}
    assert elsewhere == {f"{ADDRESS}:{room.port}"}


def test_half_requests_hold_up_nobody(network: Network, room: RoomServer) -> None:
    """A client that sends the beginning of hundreds of requests, and one that begins bodies, take no thread."""
    beginnings = [b"GET /state HTTP/1.1\r\nHost: ", b"POST /bet HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{"]

    def be_slow() -> list[socket.socket]:
        lines = [socket.create_connection((ADDRESS, room.port), timeout=10) for _ in range(560)]
        for line, text in zip(lines, beginnings * 280, strict=True):
            line.sendall(text)
        return lines

    lines = network.run(be_slow)
    phone = network.run(Phone, room.url, "patient", pin=PIN)
    assert phone.told["me"]["name"] == "patient"
    for line in lines:
        line.close()


# Pages


@pytest.fixture(scope="module")
def browser(network: Network, chromium_path: str) -> Iterator[Browser]:
    """A browser inside the network; the one that other tests share is outside."""
    from playwright.sync_api import sync_playwright

    started = network.run(sync_playwright().start)
    try:
        browser = network.run(started.chromium.launch, executable_path=chromium_path)
        yield browser
        network.run(browser.close)
    finally:
        network.run(started.stop)


@pytest.fixture(scope="module")
def pages(network: Network, stack: Stack, browser: Browser, room: RoomServer) -> Iterator[list[Page]]:
    """Pages that have joined, each a phone of its own, and bet; at the end none may have complained."""
    network.run(ask_board, stack, "/room/end", {})  # of other tests: in a sale nobody bets
    complaints: list[str] = []
    joined = [network.run(_join, browser, room.url, name, complaints) for name in NAMES]
    yield joined
    assert complaints == []


def _join(browser: Browser, url: str, name: str, complaints: list[str]) -> Page:
    language = "zh-CN" if name == "李伟" else "en"
    page = browser.new_context(viewport={"width": 360, "height": 640}, locale=language).new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.goto(url)
    page.fill("#name", name)
    page.fill("#pin", PIN)
    page.click("#join button")
    page.wait_for_selector("#sale")
    page.fill("#bet", str(len(name)))
    page.click("#bet-button")
    return page


def click_all(pages: list[Page], phones: list[Phone], sale: int) -> None:
    """All click as soon as the sale is open; the last page loses its connection in the click."""
    for page in pages:
        page.wait_for_selector("#buy:enabled")
    with ThreadPoolExecutor(len(phones)) as threads:
        answers = [threads.submit(phone.buy, sale) for phone in phones]
        for page in pages[:-1]:
            page.click("#buy")
        pages[-1].click("#buy", no_wait_after=True)
        pages[-1].context.set_offline(True)
        for answer in answers:
            answer.result()
    pages[-1].context.set_offline(False)
    for page in pages:
        page.wait_for_selector(ANSWERED)


def seen_on(page: Page) -> tuple[str, str, str]:
    """The state of the screen, the number, and the sentence below it."""
    state = page.get_attribute("#screen", "data-state") or ""
    return state, page.inner_text("#number") if state != "out" else "", page.inner_text("#more")


@pytest.mark.browser
@pytest.mark.parametrize("guard", ["none", "etcd"])
def test_every_phone_is_told_the_truth(
    network: Network, stack: Stack, pages: list[Page], phones: list[Phone], guard: str
) -> None:
    """The clashes are those of the ledger without a lock, none under etcd, and each page says what the ledger says."""
    judge = Judge(stack)
    network.run(click_all, pages, phones, begin(network, stack, guard, hold_ms=5, opens_in_s=2))

    def shown() -> Any:
        return network.run(ask_board, stack, "/room/state")

    wait_until(lambda: shown()["clicks"] == PHONES + len(pages) and not shown()["pending"])
    clashes, orders = network.run(judge.clashes), network.run(judge.orders)
    on_board = {each["number"]: {f"phone: {name}" for name in each["names"]} for each in shown()["clashes"]}
    assert on_board == clashes
    assert bool(clashes) == (guard == "none")
    assert (len(orders) == STOCK) or guard == "none"
    for phone in phones:
        me = network.run(phone.ask, "/state")["me"]
        assert _numbers(orders, phone.name) == ([me["number"]] if me["bought"] == "sold" else [])
    for name, page in zip(NAMES, pages, strict=True):
        numbers = _numbers(orders, name)
        others = len(clashes.get(numbers[0], {name})) - 1 if numbers else 0
        expected = ("clash" if others else "sold") if numbers else "out"
        wait_until(lambda: _is_told(network.run(seen_on, page), expected, others))  # noqa: B023
        assert network.run(seen_on, page)[:2] == (expected, str(numbers[0]) if numbers else "")


def _is_told(seen: tuple[str, str, str], state: str, others: int) -> bool:
    """Whether a page shows the state, and how many others hold the same item: a page learns of them one by one."""
    return seen[0] == state and (not others or re.search(rf"\b{others}\b", seen[2]) is not None)


def _numbers(orders: dict[str, tuple[str, int]], name: str) -> list[int]:
    """What the orders of a phone have read."""
    return [number for buyer, number in orders.values() if buyer == f"phone: {name}"]


@pytest.mark.browser
def test_the_board_shows_code_bets_and_clashes(
    network: Network, stack: Stack, browser: Browser, pages: list[Page], room: RoomServer
) -> None:
    """Names are text and never markup; the code is drawn; who was nearest is told with the verdict."""
    assert stack.board is not None
    begin(network, stack, "etcd")

    def look() -> None:
        board = browser.new_page(locale="en", viewport={"width": 1024, "height": 768})
        board.set_default_timeout(PATIENCE_MS)
        board.goto(f"{stack.board.url}/room" if stack.board else "")
        board.wait_for_selector(f"#url:has-text('{room.url.removeprefix('http://')}')")
        assert board.inner_text("#pin") == f"PIN {PIN}"
        board.wait_for_function("document.getElementById('code').naturalWidth > 0")
        board.select_option("#guard", "none")
        board.fill("input[name=stock]", "300")
        board.fill("input[name=buyers]", str(PHONES + 5 + 40))
        board.select_option("#think", "50")
        board.click("#next")
        board.wait_for_selector("main[data-phase=waiting]")
        assert NAMES[1] in board.inner_text("#names")
        assert board.query_selector("#names b") is None
        pages[0].fill("#bet", "40")
        pages[0].click("#bet-button")
        board.wait_for_selector("#bets-note:has-text('1 bet')")
        board.click("#now")
        board.wait_for_selector("#clash-list li")
        board.wait_for_selector("#nearest:has-text('Nearest: Ada (40)')")
        assert board.evaluate("document.documentElement.scrollWidth <= innerWidth")

    network.run(look)
