"""The whole room in a network of its own: phones over its address, the stage on the board, judged by the ledger."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import urllib.error
from collections.abc import Iterator
from typing import Any

import pytest

from labs.room.tests.network import ADDRESS, OTHER_ADDRESS, Network
from labs.room.tests.rooms import Judge, Phone, all_buy, ask_board, clashes_on_board, crowd_of
from labs.room.up import RoomServer, add_room
from loadtest.stack.stack import Stack
from tests.support.waiting import wait_until

PHONES, ROBOTS, STOCK = 30, 10, 15
ENV = {"FLASHSALE_LEASE_TTL": "2", "FLASHSALE_THREADS": "64"}


@pytest.fixture(scope="module")
def stack(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two shops, the board, and the room at the network's address."""
    stack = Stack(tmp_path_factory.mktemp("stack"), ports="free", board=True, env=ENV)
    add_room(stack, ADDRESS, port=0)
    with network.running(stack):
        yield stack


@pytest.fixture(scope="module")
def phones(network: Network, room: RoomServer) -> list[Phone]:
    """Phones that have joined."""
    return network.run(crowd_of, room.url, PHONES)


def begin(network: Network, stack: Stack, guard: str, **sale: int) -> int:
    """Begin a sale on the board; its number."""
    asked = {"guard": guard, "hold_ms": 20, "stock": STOCK, "opens_in_s": 0, "buyers": 0, **sale}
    network.run(ask_board, stack, "/room/begin", asked)
    return int(network.run(ask_board, stack, "/room/state")["sale"]["number"])


def cut_click(phone: Phone, sale: int) -> None:
    """Click, and break the connection before the answer comes."""
    body = json.dumps({"sale": sale}).encode()
    host, port = phone.url.removeprefix("http://").split(":")
    head = [
        "POST /buy HTTP/1.1", f"Host: {host}:{port}", f"Cookie: {phone.cookie}", f"Idempotency-Key: {phone.key}",
        "Content-Type: application/json", f"Content-Length: {len(body)}", "", "",
    ]  # fmt: skip
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall("\r\n".join(head).encode() + body)


def assert_all_are_told_the_truth(judge: Judge, phones: list[Phone]) -> None:
    """A phone that was told a number has the one order that read it, and no other phone has an order."""
    orders = judge.orders()
    for phone in phones:
        me = phone.told["me"]
        numbers = [number for buyer, number in orders.values() if buyer == f"phone: {phone.name}"]
        assert numbers == ([me["number"]] if me["bought"] == "sold" else []), (phone.name, me)


@pytest.mark.parametrize("guard", ["none", "etcd"])
def test_the_clashes_are_those_of_the_ledger(network: Network, stack: Stack, phones: list[Phone], guard: str) -> None:
    """Without a lock phones and robots hold the same numbers, and are told which; under etcd each number is alone."""
    judge = Judge(stack)
    sale = begin(network, stack, guard, buyers=PHONES + ROBOTS)
    network.run(cut_click, phones[0], sale)
    network.run(all_buy, phones, sale)

    def shown() -> Any:
        return network.run(ask_board, stack, "/room/state")

    wait_until(lambda: shown()["clicks"] == PHONES + ROBOTS and not shown()["pending"])
    wait_until(lambda: shown()["shop"]["over"])
    told, clashes = shown(), network.run(judge.clashes)
    assert told["sale"]["robots"] == ROBOTS
    on_board = {number: len(names) + robots for number, (names, robots) in clashes_on_board(told).items()}
    assert on_board == {number: len(buyers) for number, buyers in clashes.items()}
    for number, (names, _) in clashes_on_board(told).items():
        assert names == {each.removeprefix("phone: ") for each in clashes[number] if each.startswith("phone: ")}
    assert bool(clashes) == (guard == "none")
    for phone in phones:
        phone.told = network.run(phone.ask, "/state")
    network.run(assert_all_are_told_the_truth, judge, phones)
    for phone in (each for each in phones if each.told["me"]["bought"] == "sold"):
        me = phone.told["me"]
        others = clashes.get(me["number"], set()) - {f"phone: {phone.name}"}
        assert len(others) == len(me["others"]) + me["more"] + me["robots"]
        assert {f"phone: {name}" for name in me["others"]} <= others


def test_the_phones_clicks_are_marked_on_the_lanes(network: Network, stack: Stack, phones: list[Phone]) -> None:
    """Each purchase of a phone is a bar that says so, on the lane of its instance."""
    sale = begin(network, stack, "none", buyers=0)
    network.run(all_buy, phones[:4], sale)

    def marked() -> int:
        return sum(bar[2] for lane in network.run(ask_board, stack, "/room/state")["lanes"] for bar in lane["bars"])

    wait_until(lambda: marked() == 4)


def test_phones_count_down_and_nothing_is_sold_before_the_opening(
    network: Network, stack: Stack, phones: list[Phone]
) -> None:
    """Every phone is told the same time left by the shop's clock, an early click buys nothing, and a bet is taken."""
    sale = begin(network, stack, "etcd", opens_in_s=3)
    told = network.run(phones[0].ask, "/state")
    assert (told["phase"], 0 < told["opens_in_ms"] <= 3000) == ("countdown", True)
    with pytest.raises(urllib.error.HTTPError, match="409"):
        network.run(phones[0].ask, "/buy", {"sale": sale}, **{"Idempotency-Key": phones[0].key})
    assert network.run(phones[1].ask, "/bet", {"bet": 7})["me"]["bet"] == 7
    network.run(all_buy, phones[:2], sale)
    assert {each.told["me"]["bought"] for each in phones[:2]} == {"sold"}
    assert network.run(ask_board, stack, "/room/state")["bets"] == [{"name": phones[1].name, "bet": 7}]
    with pytest.raises(urllib.error.HTTPError, match="409"):
        network.run(phones[1].ask, "/bet", {"bet": 8})


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
    phone = network.run(Phone, room.url, "patient")
    assert phone.told["me"]["name"] == "patient"
    for line in lines:
        line.close()


def test_clients_that_read_no_answer_hold_up_nobody(network: Network, room: RoomServer) -> None:
    """Hundreds of connections of one address that ask again and again and never read leave threads for others."""
    question = f"GET /static/phone.js HTTP/1.1\r\nHost: {ADDRESS}:{room.port}\r\n\r\n".encode()

    def connect() -> socket.socket:
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        line.bind((OTHER_ADDRESS, 0))
        line.connect((ADDRESS, room.port))
        return line

    def ask_and_not_read(lines: list[socket.socket]) -> None:
        for line in lines:
            with contextlib.suppress(OSError):  # the room has closed it
                line.sendall(question)

    lines = [network.run(connect) for _ in range(450)]
    for number in range(8):  # until no buffer takes another answer
        network.run(ask_and_not_read, lines)
        network.run(Phone, room.url, f"reader {number}")  # which is served
    for line in lines:
        line.settimeout(30)
        assert network.run(drained, line), "it was closed"
        line.close()


def drained(line: socket.socket) -> bool:
    """Read to the end of a connection that the room has closed."""
    with contextlib.suppress(ConnectionResetError):
        while line.recv(65536):
            pass
    return True


def test_a_request_in_pieces_is_served_when_its_last_piece_comes(network: Network, room: RoomServer) -> None:
    """Head, half of the body and the rest in three segments; one that stops sending is closed at once."""

    def send_in_pieces() -> bytes:
        with socket.create_connection((ADDRESS, room.port), timeout=30) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            head = f"POST /join HTTP/1.1\r\nHost: {ADDRESS}:{room.port}\r\nContent-Type: application/json\r\n"
            for piece in (head, "Content-Length: 17\r\n\r\n", '{"name":', '"pieces"}'):
                line.sendall(piece.encode())
            return line.recv(65536)

    def stop_in_the_middle() -> bool:
        with socket.create_connection((ADDRESS, room.port), timeout=30) as line:
            line.sendall(b"POST /join HTTP/1.1\r\nContent-Length: 20\r\n\r\n{")
            line.shutdown(socket.SHUT_WR)
            return drained(line)

    assert b"200 OK" in network.run(send_in_pieces)
    assert network.run(stop_in_the_middle)
