"""The room under everything at once that hostile trials did to it one by one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.room.tests.network import ADDRESS, Network
from labs.room.tests.rooms import Phone, ask_board, crowd_of
from labs.room.up import RoomServer, add_room
from loadtest import REPOSITORY
from loadtest.stack.stack import Stack

PIN, PHONES, SECONDS, ANSWERED_S = "471147", 25, 20.0, 2.0


@pytest.fixture
def stack(network: Network, tmp_path: Path) -> Iterator[Stack]:
    """Two shops, the board, and a room with a PIN."""
    stack = Stack(tmp_path, ports="free", board=True, env={"FLASHSALE_THREADS": "64"})
    add_room(stack, ADDRESS, port=0, pin=PIN)
    with network.running(stack):
        network.run(subprocess.run, ["ip", "route", "add", "local", "198.51.100.0/24", "dev", "lo"], check=True)
        yield stack


@pytest.mark.flaky(reruns=1, reason="answers within two seconds")
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(180)
def test_phones_that_play_by_the_rules_are_answered(network: Network, stack: Stack) -> None:
    """While others join, flood, read nothing and guess the PIN, each phone polls and buys within two seconds."""
    (room,) = (each for each in stack.pages if isinstance(each, RoomServer))
    phones = network.run(crowd_of, room.url, PHONES, pin=PIN)
    words = [sys.executable, "-m", "labs.room.tests.siege", ADDRESS, str(room.port), PIN, str(SECONDS)]
    siege = network.run(subprocess.Popen, words, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert siege.stdout is not None
    assert siege.stdout.readline() == "begun\n"
    began, longest = time.monotonic(), 0.0

    def ask(phone: Phone, path: str, **body: int) -> None:
        nonlocal longest
        asked = time.monotonic()
        phone.ask(path, body or None, **({"Idempotency-Key": phone.key} if body else {}))
        longest = max(longest, time.monotonic() - asked)

    def play() -> None:
        while time.monotonic() < began + SECONDS - 4:
            ask_board(stack, "/room/begin", {"guard": "redis-lua", "hold_ms": 0, "stock": 10, "opens_in_s": 0})
            sale = ask_board(stack, "/room/state")["sale"]["number"]
            for phone in phones:
                ask(phone, "/state")
                ask(phone, "/buy", sale=sale)
                assert phone.told["me"]["bought"] in ("sold", "sold_out")

    network.run(play)
    answers = Counter(json.loads(siege.communicate(timeout=60)[0]))
    print(f"\nlongest answer {longest:.2f} s; siege: {answers}")
    assert not any(status.startswith("guess 200") for status in answers)
    assert answers["guess 403"] + answers["guess 429"] > 100 < answers["flood 200"] + answers["flood 429"]
    assert longest < ANSWERED_S
