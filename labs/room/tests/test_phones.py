"""What phones may ask for, and what hostile ones get: one crowd in this process, in front of two real shops."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests
from flask.testing import FlaskClient
from pydantic import SecretStr

from app.board import create_board
from app.board.settings import BoardSettings
from app.config.settings import Settings
from labs.room import up
from labs.room.crowd import MOST_OF_ONE_ADDRESS, Crowd, RoomRefused, checked_name
from labs.room.phones import RoomParts, create_phones
from labs.room.settings import RoomSettings
from loadtest.stack.stack import Stack
from tests.support.serving import serving
from tests.support.waiting import assert_raises

URL = "http://192.0.2.10:8060"
KEY = {"Idempotency-Key": "0123456789abcdef"}


class Room:
    """A room of the test's own, in front of these instances."""

    def __init__(self, instances: Sequence[str] = (), pin: str | None = None) -> None:
        self.crowd = Crowd()
        settings = RoomSettings(url=URL, stage=Path("unused"), pin=pin, instances=tuple(instances))
        self.phone = create_phones(RoomParts(settings, self.crowd)).test_client

    def join(self, name: str = "Ada") -> FlaskClient:
        """A phone that is in the room."""
        phone = self.phone()
        assert phone.post("/join", json={"name": name}, base_url=URL).status_code == 200
        return phone

    def open_sale(self, opens_in_s: float = 0.0) -> int:
        """A sale of the room in the shops' open sale; its number."""
        sale = self.crowd.begin_sale(guard="redis-lua", hold_ms=0, stock=300, opens_in_s=opens_in_s, buyers=0)
        return sale.number


@pytest.fixture
def room(stack: Stack) -> Iterator[Room]:
    """A room in front of two real shops; at the end it buys no more."""
    room = Room(stack.urls)
    yield room
    room.crowd.end_sale(timeout=30.0)


def buy(phone: FlaskClient, sale: int, **headers: str) -> Any:
    return phone.post("/buy", json={"sale": sale}, headers={**KEY, **headers}, base_url=URL)


def kind_of(response: Any) -> str:
    return str(response.get_json()["type"]).rpartition(":")[2]


def test_a_click_buys_once_however_often_and_with_whatever_key_it_is_repeated(room: Room) -> None:
    """All repetitions get the one answer, and a number is what the purchase has read.

    Long before the opening, in no sale and in another sale a click buys nothing; a moment before, it waits.
    """
    phone = room.join()
    assert (buy(phone, 1).status_code, kind_of(buy(phone, 1))) == (409, "not_open")
    assert kind_of(buy(phone, room.open_sale(opens_in_s=60))) == "not_open"
    sale = room.open_sale(opens_in_s=0.2)
    assert kind_of(buy(phone, sale - 1)) == "not_open"
    answers = [buy(phone, sale, **{"Idempotency-Key": key}).get_json()["me"] for key in ("first-key", "other-key") * 2]
    assert [each["bought"] for each in answers] == ["sold"] * 4
    assert {each["number"] for each in answers} == {300}
    assert buy(room.join("Bob"), sale).get_json()["me"]["number"] == 299  # the same key is another phone's own


def test_a_purchase_whose_answer_is_lost_is_found_again(stack: Stack) -> None:
    """The shop has sold when the connection breaks: the same key finds the order at the other instance."""
    host, port = stack.urls[0].removeprefix("http://").split(":")

    def sell_and_hang_up(line: socket.socket, data: bytes) -> None:
        while not data.endswith(b"}"):  # the body comes by itself
            data += line.recv(65536)
        with socket.create_connection((host, int(port)), timeout=10) as shop:
            shop.sendall(data)
            assert b"sold" in shop.recv(65536)
        line.shutdown(socket.SHUT_RDWR)

    with serving(sell_and_hang_up) as lossy:
        room = Room([f"http://{lossy.endpoint}", stack.urls[1]])
        assert buy(room.join(), room.open_sale()).get_json()["me"]["number"] == 300
    assert requests.get(f"{stack.urls[1]}/stock", timeout=10).json()["orders"] == 1


def test_a_new_sale_begins_when_the_shop_has_answered() -> None:
    """A purchase under way would be made in the next sale; bets on a sale that was open end with it."""
    room, crowd = (made := Room()), made.crowd
    phone = crowd.join("Ada", "192.0.2.1")
    crowd.bet(phone, 5)
    click, _ = crowd.click(phone, "k", room.open_sale())
    assert crowd.enter(click)
    assert_raises(RoomRefused, crowd.end_sale, timeout=0.0, match="under way")
    crowd.leave(click, is_settled=False)
    crowd.end_sale(timeout=0.0)
    assert (crowd.enter(click), phone.bet) == (False, None)


def test_nobody_bets_on_more_sales_than_there_are_buyers(room: Room) -> None:
    """A bet above the phones and robots of the coming sale is refused with a word, and the bet before stands."""
    phone = room.join()
    room.open_sale(opens_in_s=60)
    told = [phone.post("/bet", json={"bet": items}, base_url=URL) for items in (1, -1, "many", 2)]
    assert [each.status_code for each in told] == [200, 400, 400, 400]
    assert told[3].get_json()["detail"] == "Bet a whole number from 0 to 1: no more can buy."
    assert phone.get("/state", base_url=URL).get_json()["me"]["bet"] == 1


def test_nothing_but_the_page_and_the_purchase_is_reached() -> None:
    """Routes of shop, board, stage and Locust do not exist here, and no file but the page's own."""
    phone = Room().phone()
    shop = ["/stock", "/stock/reset", "/stock/reduce", "/sale/schedule", "/guards", "/lock", "/metrics"]
    stage = ["/control/reset", "/room/begin", "/begin", "/end", "/remove", "/swarm", "/records"]
    for path in [*shop, *stage, "/static/room.js", "/static/..%2fphones.py"]:
        told = [phone.open(path, method=method, json={}, base_url=URL).status_code for method in ("GET", "POST")]
        assert told in ([404, 404], [404, 405]), path


FORGED = [
    ({"Origin": "http://elsewhere.example"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Host": "elsewhere.example"}, 403),
    ({"Content-Type": "text/plain"}, 415),
    *(({"Idempotency-Key": key}, 400) for key in ("short", "a" * 65, "room-1-2/../x")),
    ({}, 409),
    ({"Cookie": "room=forged"}, 401),
]


def test_a_forged_click_buys_nothing(room: Room) -> None:
    """A page from elsewhere, another host name, a form, a forged cookie or key: each has its clear answer."""
    phone, sale = room.join(), room.open_sale(opens_in_s=60)
    for headers, status in FORGED:
        if "Cookie" in headers:
            phone.delete_cookie("room", domain="192.0.2.10")
        sent = {"Content-Type": "application/json", **KEY, **headers}
        answer = phone.post("/buy", data=json.dumps({"sale": sale}), base_url=URL, headers=sent)
        assert answer.status_code == status, headers
        assert answer.get_json()["detail"]
    assert room.crowd.sale is not None
    assert room.crowd.sale.clicks == {}


def test_what_one_phone_may_ask_for_is_bounded_for_it_alone(room: Room) -> None:
    """A hundred clicks at once from one phone are refused but for some; another phone at its address is served."""
    hasty, calm, sale = room.join("hasty"), room.join("calm"), room.open_sale()
    began = time.monotonic()
    told = [buy(hasty, sale) for _ in range(100)]
    refused = [each for each in told if each.status_code == 429]
    assert 100 - len(refused) <= 20 + 8 * (time.monotonic() - began) + 1
    assert (kind_of(refused[0]), refused[0].headers["Retry-After"]) == ("slow_down", "1")
    assert buy(calm, sale).get_json()["me"]["bought"] == "sold"


@pytest.mark.parametrize(("address", "most"), [("192.0.2.{}", 240), ("2001:db8::{:x}", 60)])
def test_a_pin_cannot_be_tried_out(address: str, most: int) -> None:
    """Of many addresses only some tries count, and a network of IPv6 is one address; others elsewhere still join.

    Twenty wrong tries of one phone lock out no other behind its router.
    """

    def try_pin(phone: FlaskClient, pin: str, address: str) -> str:
        where = {"REMOTE_ADDR": address}
        told = phone.post("/join", json={"name": "Ada", "pin": pin}, base_url=URL, environ_overrides=where)
        return kind_of(told) if told.status_code != 200 else "joined"

    phone, other = (Room(pin="471147").phone() for _ in range(2))
    assert phone.get("/state", base_url=URL).get_json()["needs_pin"] is True
    assert {try_pin(other, f"{number:06}", "192.0.2.1") for number in range(20)} == {"wrong_pin"}
    assert try_pin(other, "471147", "192.0.2.1") == "joined"
    tried = [try_pin(phone, f"{number:06}", address.format(number % 60)) for number in range(1200)]
    assert most <= tried.count("wrong_pin") < 2 * most
    assert set(tried) == {"wrong_pin", "slow_down"}
    if ":" in address:
        assert try_pin(phone, "471147", "2001:db8:1::1") == "joined"


def test_one_address_does_not_fill_the_room() -> None:
    """It has a bound of its own, and others still join."""
    crowd = Crowd()
    for _ in range(MOST_OF_ONE_ADDRESS):
        crowd.join("Eve", "192.0.2.1")
    assert_raises(RoomRefused, crowd.join, "Eve", "192.0.2.1", match="with your address")
    assert crowd.join("Eve", "192.0.2.2").name == f"Eve {MOST_OF_ONE_ADDRESS + 1}"


SHOWN = {
    "  Ada \n Lovelace\t": "Ada Lovelace",
    "<b>Ada</b>": "<b>Ada</b>",
    "a\u202eb\u200bc": "a b c",
    "x" * 50: "x" * 20,
    "\u3164Ada": "Ada",
    **{name: name for name in ("李伟", "🦦", "Robert")},
    **dict.fromkeys(("\u200b\u0301 -", "", "\u3164\u2800\u115f", "9 robots", "12 个机器人")),
}


def test_a_name_is_one_short_visible_line() -> None:
    """What can't be seen or turns a text around is left out; a name without a letter is refused."""
    names = dict[str, str | None].fromkeys(SHOWN)
    for given in names:
        with suppress(RoomRefused):
            names[given] = checked_name(given)
    assert names == SHOWN


def test_the_page_speaks_the_language_of_the_phone() -> None:
    """By the browser's choice or the address."""
    phone = Room().phone()
    chinese = phone.get("/", base_url=URL, headers={"Accept-Language": "zh-CN,zh;q=0.9"}).text
    assert 'lang="zh"' in chinese
    assert "/texts/zh.js" in chinese
    assert 'lang="zh"' in phone.get("/?language=zh", base_url=URL, headers={"Accept-Language": "en"}).text
    assert 'lang="en"' in phone.get("/?language=<x>", base_url=URL, headers={"Accept-Language": "fr"}).text


def test_the_stage_begins_a_sale_with_the_token_alone(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a token is set, nothing is begun, ended or removed without it."""
    room = RoomSettings(url="http://192.0.2.10:8060", stage=Path("/nowhere/stage"), pin="4711")
    for name, value in room.environment().items():
        monkeypatch.setenv(name, value)
    shop = settings.model_copy(update={"admin_token": SecretStr("secret")})
    board = create_board(BoardSettings(shop=shop)).test_client()
    for path in ("/room/begin", "/room/end", "/room/remove"):
        assert board.post(path, json={}).status_code == 401
    token = {"Authorization": "Bearer secret"}
    silent = board.post("/room/end", json={}, headers=token)
    assert silent.status_code == 503
    assert "does not answer" in silent.get_json()["detail"]
    assert board.get("/room/setup").get_json()["pin"] == "4711"
    assert board.get("/room/code.svg").data.startswith(b"<?xml")


def test_the_address_is_that_of_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never that of loopback, even where the system would send from there."""
    monkeypatch.setattr(up, "ELSEWHERE", ("127.0.0.1", 9))
    monkeypatch.setattr(up, "_interface_addresses", lambda: ["127.0.0.1", "192.0.2.10"])
    assert up.own_address() == "192.0.2.10"
