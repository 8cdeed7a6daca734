"""The whole room: phones and browsers over its own address, the stage, judged by the ledger."""

from __future__ import annotations

import socket
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psutil
import pytest
import redis
import requests

from app.contract.keys import Keys
from app.contract.orders import Order
from app.contract.section_log import SectionTail
from labs.room.up import RoomServer, add_room
from loadtest.stack.stack import Stack
from tests.support.browser_fixtures import Browser, Page
from tests.support.looking import PATIENCE_MS
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has several addresses of its own from the start"),
]

ADDRESS = "127.0.0.2"  # stands for the network's; all else is to be at 127.0.0.1
PHONES, STOCK, PIN = 30, 15, "4711"
NAMES = ["Ada", "<b>Bob</b>", "李伟", "Dora", "Emil"]
ANSWERED = "#screen:is([data-state=sold], [data-state=clash], [data-state=out])"
ENV = {"FLASHSALE_LEASE_TTL": "2", "FLASHSALE_THREADS": "64"}


class Phone:
    """A phone without a page, in the room."""

    def __init__(self, url: str, name: str) -> None:
        self.url, self.session, self._headers = url, requests.Session(), {"Idempotency-Key": uuid.uuid4().hex}
        self.session.trust_env = False  # no proxy leads to it
        self.name = self.ask("/join", {"name": name, "pin": PIN})["me"]["name"]

    def ask(self, path: str, body: Any = None) -> Any:
        """What it is told; raises requests.RequestException."""
        method = "GET" if body is None else "POST"
        answer = self.session.request(method, self.url + path, json=body, headers=self._headers, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def buy(self, sale: int) -> None:
        """Click until the answer is there, as the page does."""

        def is_answered() -> bool:
            with suppress(requests.RequestException):  # not open yet, too fast, or the connection broke
                return bool(self.ask("/buy", {"sale": sale})["me"]["bought"] != "pending")
            time.sleep(0.2)  # not an event: more often a phone may not ask
            return False

        wait_until(is_answered, timeout=60)


def ask_board(stack: Stack, path: str, body: Any = None) -> Any:
    """What the board's page of the room asks for."""
    assert stack.board is not None
    answer = requests.request("GET" if body is None else "POST", stack.board.url + path, json=body, timeout=30)
    answer.raise_for_status()
    return answer.json()


def holders_of(stack: Stack, tail: SectionTail) -> dict[int, list[str]]:
    """The buyers of the orders in Redis, by the number that each has read by the section log."""
    read = {each.order: each.stock_read for each in tail.poll() if each.stock_read is not None}
    held = defaultdict[int, list[str]](list)
    with redis.Redis.from_url(stack.redis.url, decode_responses=True) as client:
        for order in map(Order.decode, client.lrange(Keys("demo").orders, 0, -1)):
            held[read[order.order]].append(order.buyer)
    return held


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two shops, the board, and the room with a PIN at an address of its own."""
    stack = Stack(tmp_path_factory.mktemp("stack"), ports="free", board=True, env=ENV)
    add_room(stack, ADDRESS, port=0, pin=PIN)
    with stack:
        yield stack


@pytest.fixture(scope="module")
def room(stack: Stack) -> RoomServer:
    """Its room."""
    (room,) = (each for each in stack.pages if isinstance(each, RoomServer))
    return room


@pytest.fixture(scope="module")
def phones(room: RoomServer) -> list[Phone]:
    """Phones that have joined."""
    with ThreadPoolExecutor(16) as threads:
        return list(threads.map(lambda number: Phone(room.url, f"phone {number}"), range(PHONES)))


def begin(stack: Stack, guard: str, **sale: int) -> int:
    """Begin a sale on the board; its number."""
    asked = {"guard": guard, "hold_ms": 20, "stock": STOCK, "opens_in_s": 0, "buyers": 0, **sale}
    ask_board(stack, "/room/begin", asked)
    return int(ask_board(stack, "/room/state")["sale"]["number"])


def test_the_network_reaches_the_room_alone(room: RoomServer) -> None:
    """Of all that listens, the room's port alone is at its address; all else is on loopback."""
    lines = [line for child in psutil.Process().children(recursive=True) for line in child.net_connections("inet")]
    listening = {line.laddr[:2] for line in lines if line.status == psutil.CONN_LISTEN}
    assert len(listening) > 5
    assert {each for each in listening if each[0] not in ("127.0.0.1", "::1")} == {(ADDRESS, room.port)}


def test_half_requests_hold_up_nobody(room: RoomServer) -> None:
    """A client that sends the beginning of hundreds of requests, and one that begins bodies, take no thread."""
    beginnings = [b"GET /state HTTP/1.1\r\nHost: ", b"POST /bet HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{"]
    lines = [socket.create_connection((ADDRESS, room.port), timeout=10) for _ in range(560)]
    for line, text in zip(lines, beginnings * 280, strict=True):
        line.sendall(text)
    assert Phone(room.url, "patient").name == "patient"
    for line in lines:
        line.close()


# Pages


@pytest.fixture(scope="module")
def pages(stack: Stack, chromium: Browser, room: RoomServer) -> Iterator[list[Page]]:
    """Pages that have joined, each a phone of its own, and bet; at the end none may have complained."""
    ask_board(stack, "/room/end", {})  # of other tests: in a sale nobody bets
    complaints: list[str] = []

    def join(name: str) -> Page:
        language = "zh-CN" if name == "李伟" else "en"
        page = chromium.new_context(viewport={"width": 360, "height": 640}, locale=language).new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.goto(room.url)
        page.fill("#name", name)
        page.fill("#pin", PIN)
        page.click("#join button")
        page.wait_for_selector("#sale")
        page.fill("#bet", str(len(name)))
        page.click("#bet-button")
        return page

    yield [join(name) for name in NAMES]
    assert complaints == []


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


@pytest.mark.browser
@pytest.mark.parametrize("guard", ["none", "etcd"])
def test_every_phone_is_told_the_truth(stack: Stack, pages: list[Page], phones: list[Phone], guard: str) -> None:
    """The clashes are those of the ledger without a lock, none under etcd, and each page says what the ledger says."""
    tail = SectionTail(stack.section_log)
    click_all(pages, phones, begin(stack, guard, hold_ms=5, opens_in_s=2))
    holders = holders_of(stack, tail)
    clashes = {number: {*names} for number, names in holders.items() if len(names) > 1}
    shown = ask_board(stack, "/room/state")["clashes"]
    assert {each["number"]: {f"phone: {name}" for name in each["names"]} for each in shown} == clashes
    assert bool(clashes) == (guard == "none")
    assert (sum(map(len, holders.values())) == STOCK) or guard == "none"
    numbers = {name.removeprefix("phone: "): number for number, names in holders.items() for name in names}
    for phone in phones:
        me = phone.ask("/state")["me"]
        assert numbers.get(phone.name) == (me["number"] if me["bought"] == "sold" else None)
    for name, page in zip(NAMES, pages, strict=True):
        others = len(holders[numbers[name]]) - 1 if name in numbers else 0
        state = ("clash" if others else "sold") if name in numbers else "out"
        page.wait_for_selector(f"#screen[data-state={state}]")
        assert name not in numbers or page.inner_text("#number") == str(numbers[name])
        if others:  # a page learns of them one by one
            page.wait_for_selector(f"#more:text-matches('\\\\b{others}\\\\b')")


@pytest.mark.browser
def test_the_board_shows_code_bets_and_clashes(
    stack: Stack, chromium: Browser, pages: list[Page], room: RoomServer
) -> None:
    """Names are text and never markup; the code is drawn; who was nearest is told with the verdict."""
    assert stack.board is not None
    begin(stack, "etcd")
    board = chromium.new_page(locale="en", viewport={"width": 1024, "height": 768})
    board.set_default_timeout(PATIENCE_MS)
    board.goto(f"{stack.board.url}/room")
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
