"""What phones may ask for, and what hostile ones get: one crowd in this process, in front of two real shops."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from flask.testing import FlaskClient
from pydantic import SecretStr

from app.board import create_board
from app.board.settings import BoardSettings
from app.config.settings import Settings
from labs.room.crowd import MOST_OF_ONE_ADDRESS, Crowd, RoomRefused, checked_name
from labs.room.parts import RoomParts
from labs.room.phones import TEXTS, create_phones
from labs.room.settings import RoomSettings
from labs.room.tests.network import ADDRESS, own_network
from labs.room.up import own_address
from loadtest.stack.stack import Stack
from tests.support.serving import serving

Join = Callable[..., FlaskClient]
URL = "http://192.0.2.10:8060"
KEY = {"Idempotency-Key": "0123456789abcdef"}


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    """A crowd of this test's own; at the end it buys no more."""
    crowd = Crowd()
    yield crowd
    crowd.end_sale(timeout=30.0)


@pytest.fixture
def make(crowd: Crowd) -> Callable[..., Callable[[], FlaskClient]]:
    """Makes the phones' application in front of these instances; it makes phones that have not joined."""

    def make(*instances: str, pin: str | None = None) -> Callable[[], FlaskClient]:
        settings = RoomSettings(url=URL, stage=Path("unused"), pin=pin, instances=instances)
        return create_phones(RoomParts(settings, crowd)).test_client

    return make


@pytest.fixture
def join(make: Any, stack: Stack) -> Join:
    """Makes a phone that is in the room of two real shops."""
    phone = make(*stack.urls)

    def join(name: str = "Ada", **where: Any) -> FlaskClient:
        made: FlaskClient = phone()
        assert made.post("/join", json={"name": name}, base_url=URL, **where).status_code == 200
        return made

    return join


def open_sale(crowd: Crowd, guard: str = "redis-lua", opens_in_s: float = 0.0) -> int:
    """A sale of the room in the shops' open sale; its number."""
    return crowd.begin_sale(guard=guard, hold_ms=0, stock=300, opens_in_s=opens_in_s, buyers=0).number


def buy(phone: FlaskClient, sale: int, **headers: str) -> Any:
    return phone.post("/buy", json={"sale": sale}, headers={**KEY, **headers}, base_url=URL)


def kind_of(response: Any) -> str:
    return str(response.get_json()["type"]).rpartition(":")[2]


def test_a_click_buys_once_however_often_and_with_whatever_key_it_is_repeated(join: Join, crowd: Crowd) -> None:
    """All repetitions get the one answer, and a number is what the purchase has read."""
    phone, sale = join(), open_sale(crowd)
    answers = [buy(phone, sale, **{"Idempotency-Key": key}).get_json()["me"] for key in ("first-key", "other-key") * 2]
    assert [each["bought"] for each in answers] == ["sold"] * 4
    assert {each["number"] for each in answers} == {300}
    assert buy(join("Bob"), sale).get_json()["me"]["number"] == 299  # the same key is another phone's own


def test_a_purchase_whose_answer_is_lost_is_found_again(make: Any, stack: Stack, crowd: Crowd) -> None:
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
        phone: FlaskClient = make(f"http://{lossy.endpoint}", stack.urls[1])()
        phone.post("/join", json={"name": "Ada"}, base_url=URL)
        assert buy(phone, open_sale(crowd)).get_json()["me"]["number"] == 300
    with urlopen(f"{stack.urls[1]}/stock", timeout=10) as response:
        assert json.load(response)["orders"] == 1


def test_a_click_waits_for_the_opening_and_for_no_other_sale(join: Join, crowd: Crowd) -> None:
    """Long before the opening, in no sale and in another sale a click buys nothing; a moment before, it waits."""
    phone = join()
    assert (buy(phone, 1).status_code, kind_of(buy(phone, 1))) == (409, "not_open")
    assert kind_of(buy(phone, open_sale(crowd, opens_in_s=60))) == "not_open"
    sale = open_sale(crowd, opens_in_s=0.2)
    assert kind_of(buy(phone, sale - 1)) == "not_open"
    assert buy(phone, sale).get_json()["me"]["bought"] == "sold"


def test_a_new_sale_begins_when_the_shop_has_answered(crowd: Crowd) -> None:
    """A purchase under way would be made in the next sale; bets on a sale that was open end with it."""
    phone = crowd.join("Ada", "192.0.2.1")
    crowd.bet(phone, 5)
    click, _ = crowd.click(phone, "k", open_sale(crowd))
    assert crowd.enter(click)
    with pytest.raises(RoomRefused, match="under way"):
        crowd.end_sale(timeout=0.0)
    crowd.leave(click, is_settled=False)
    crowd.end_sale(timeout=0.0)
    assert (crowd.enter(click), phone.bet) == (False, None)


def test_nobody_bets_on_more_sales_than_there_are_buyers(join: Join, crowd: Crowd) -> None:
    """A bet above the phones and robots of the coming sale is refused with a word, and the bet before stands."""
    phone = join()
    open_sale(crowd, opens_in_s=60)

    def bet(items: object) -> Any:
        return phone.post("/bet", json={"bet": items}, base_url=URL)

    assert [bet(each).status_code for each in (1, 2, -1, "many")] == [200, 400, 400, 400]
    assert bet(2).get_json()["detail"] == "Bet a whole number from 0 to 1: no more can buy."
    assert phone.get("/state", base_url=URL).get_json()["me"]["bet"] == 1


def test_nothing_but_the_page_and_the_purchase_is_reached(make: Any) -> None:
    """Routes of shop, board, stage and Locust do not exist here, and no file but the page's own."""
    phone: FlaskClient = make()()
    shop = ["/stock", "/stock/reset", "/stock/reduce", "/sale/schedule", "/guards", "/lock", "/metrics"]
    stage = ["/control/reset", "/room/begin", "/begin", "/end", "/remove", "/swarm", "/records"]
    for path in [*shop, *stage, "/static/room.js", "/static/..%2fphones.py"]:
        told = [phone.open(path, method=method, json={}, base_url=URL).status_code for method in ("GET", "POST")]
        assert told in ([404, 404], [404, 405]), path


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://elsewhere.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "elsewhere.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Cookie": "room=forged"}, 401),
        ({"Idempotency-Key": "short"}, 400),
        ({"Idempotency-Key": "a" * 65}, 400),
        ({"Idempotency-Key": "room-1-2/../x"}, 400),
        ({}, 409),
    ],
)
def test_a_forged_click_buys_nothing(join: Join, crowd: Crowd, headers: dict[str, str], status: int) -> None:
    """A page from elsewhere, another host name, a form, a forged cookie or key: each has its clear answer."""
    phone, sale = join(), open_sale(crowd, opens_in_s=60)
    if "Cookie" in headers:
        phone.delete_cookie("room", domain="192.0.2.10")
    sent = {"Content-Type": "application/json", **KEY, **headers}
    answer = phone.post("/buy", data=json.dumps({"sale": sale}), base_url=URL, headers=sent)
    assert answer.status_code == status
    assert answer.get_json()["detail"]
    assert crowd.sale is not None
    assert crowd.sale.clicks == {}


def test_what_one_phone_may_ask_for_is_bounded_for_it_alone(join: Join, crowd: Crowd) -> None:
    """A hundred clicks at once from one phone are refused but for some; another phone at its address is served."""
    hasty, calm, sale = join("hasty"), join("calm"), open_sale(crowd)
    began = time.monotonic()
    told = [buy(hasty, sale) for _ in range(100)]
    refused = [each for each in told if each.status_code == 429]
    assert 100 - len(refused) <= 20 + 8 * (time.monotonic() - began) + 1
    assert (kind_of(refused[0]), refused[0].headers["Retry-After"]) == ("slow_down", "1")
    assert buy(calm, sale).get_json()["me"]["bought"] == "sold"


@pytest.fixture
def try_pin(make: Any) -> Callable[..., str]:
    """Tries to join a room with the PIN 471147; "joined", or the kind of the refusal."""
    phone: FlaskClient = make(pin="471147")()
    assert phone.get("/state", base_url=URL).get_json()["needs_pin"] is True

    def try_pin(pin: str, address: str = "192.0.2.1") -> str:
        where = {"REMOTE_ADDR": address}
        told = phone.post("/join", json={"name": "Ada", "pin": pin}, base_url=URL, environ_overrides=where)
        return kind_of(told) if told.status_code != 200 else "joined"

    return try_pin


def test_wrong_tries_of_one_phone_lock_out_no_other_behind_its_router(try_pin: Callable[..., str]) -> None:
    """After twenty of them, who has the PIN of the board joins from the same address."""
    assert {try_pin(f"{number:06}") for number in range(20)} == {"wrong_pin"}
    assert try_pin("471147") == "joined"


@pytest.mark.parametrize("address", ["192.0.2.{}", "2001:db8::{:x}"])
def test_a_pin_cannot_be_tried_out(try_pin: Callable[..., str], address: str) -> None:
    """Of many addresses only some tries count, and a network of IPv6 is one address; others elsewhere still join."""
    tried = [try_pin(f"{number:06}", address.format(number % 60)) for number in range(1200)]
    most = 60 if ":" in address else 240
    assert most <= tried.count("wrong_pin") < 2 * most
    assert set(tried) == {"wrong_pin", "slow_down"}
    if ":" in address:
        assert try_pin("471147", "2001:db8:1::1") == "joined"


def test_one_address_does_not_fill_the_room(crowd: Crowd) -> None:
    """It has a bound of its own, and others still join."""
    for _ in range(MOST_OF_ONE_ADDRESS):
        crowd.join("Eve", "192.0.2.1")
    with pytest.raises(RoomRefused, match="with your address"):
        crowd.join("Eve", "192.0.2.1")
    assert crowd.join("Eve", "192.0.2.2").name == f"Eve {MOST_OF_ONE_ADDRESS + 1}"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("  Ada \n Lovelace\t", "Ada Lovelace"),
        ("<b>Ada</b>", "<b>Ada</b>"),
        ("a\u202eb\u200bc", "a b c"),
        ("x" * 50, "x" * 20),
        ("李伟", "李伟"),
        ("🦦", "🦦"),
        ("\u200b\u0301 -", None),
        ("", None),
        ("\u3164\u2800\u115f", None),
        ("\u3164Ada", "Ada"),
        ("9 robots", None),
        ("12 个机器人", None),
        ("Robert", "Robert"),
    ],
)
def test_a_name_is_one_short_visible_line(given: str, shown: str | None) -> None:
    """What can't be seen or turns a text around is left out; a name without a letter is refused."""
    with suppress(RoomRefused):
        assert checked_name(given) == shown
        return
    assert shown is None


def test_the_page_speaks_the_language_of_the_phone(join: Join) -> None:
    """By the browser's choice or the address; both languages have all texts with the same values."""
    phone = join()
    chinese = phone.get("/", base_url=URL, headers={"Accept-Language": "zh-CN,zh;q=0.9"}).text
    assert 'lang="zh"' in chinese
    assert "/texts/zh.js" in chinese
    assert 'lang="zh"' in phone.get("/?language=zh", base_url=URL, headers={"Accept-Language": "en"}).text
    assert 'lang="en"' in phone.get("/?language=<x>", base_url=URL, headers={"Accept-Language": "fr"}).text
    board = json.loads((Path(__file__).parents[1] / "static/texts.json").read_text(encoding="utf-8"))
    for table in (TEXTS, board):
        en, zh = (
            {key: set(re.findall(r"\{\w+\}", text)) for key, text in table[each].items()} for each in ("en", "zh")
        )
        assert en.keys() == zh.keys()
        assert [key for key in en if not zh[key] >= en[key]] == []


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


def test_the_address_is_found_or_asked_for() -> None:
    """The network's address is taken and never that of loopback."""
    with own_network() as network:
        assert network.run(own_address) == ADDRESS
