"""Purchases at the shop: each is sent again with its key until it is answered, so it is made once."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from urllib.parse import urlsplit

from app.board.sources.instances import find
from app.contract.outcomes import Outcome
from labs.room.crowd import MOST_PHONES, MOST_ROBOTS, Crowd, RoomBuyer, RoomClick, RoomRefused, RoomSale

ANSWER_S = 20.0  # longer than a purchase waits for its turn
PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0)  # before it is sent again; the last one for good
NOT_OPEN_S = 0.05  # the leader opens the sale a moment after its time
REACTION_S = (0.2, 2.5)  # robots click as late after the opening as people do


class Buying:
    """Sends the clicks of a crowd to the instances in turn, each in its own thread."""

    def __init__(self, crowd: Crowd, instances: Sequence[str]) -> None:
        self._crowd = crowd
        self._instances = instances
        self._turns = itertools.count()
        self._threads = ThreadPoolExecutor(MOST_PHONES + MOST_ROBOTS, thread_name_prefix="buy")

    def start(self, click: RoomClick) -> None:
        """Begin to buy; `click.settled` tells the end."""
        self._threads.submit(self._buy, click, next(self._turns))

    def start_robots(self, sale: RoomSale) -> None:
        """Have robots click at the opening, as late as people do."""
        for number in range(1, sale.robots + 1):
            self._threads.submit(self._click, sale, RoomBuyer(f"robot-{number}", str(number), is_robot=True))

    def _click(self, sale: RoomSale, robot: RoomBuyer) -> None:
        time.sleep(sale.opens_in_s + random.uniform(*REACTION_S))
        with suppress(RoomRefused):  # another sale has begun
            click, _ = self._crowd.click(robot, "0", sale.number)
            self._buy(click, next(self._turns))

    def _buy(self, click: RoomClick, turn: int) -> None:
        time.sleep(click.sale.opens_in_s)
        pauses = itertools.chain(PAUSES_S, itertools.repeat(PAUSES_S[-1]))
        while self._crowd.enter(click):
            word, number = "", None
            try:
                word, number = self._ask(click, turn)
            finally:
                self._crowd.leave(click, is_settled=word in (Outcome.SOLD, Outcome.SOLD_OUT), number=number)
            if click.settled.is_set():
                return
            turn += 1  # the other instance may be well
            time.sleep(NOT_OPEN_S if word == "not_open" else next(pauses) * random.uniform(0.5, 1.0))

    def _ask(self, click: RoomClick, turn: int) -> tuple[str, int | None]:
        """One request: the shop's word for the outcome, and the number that was read if it was sold."""
        try:
            urls = find(self._instances)
            connection = http.client.HTTPConnection(urlsplit(urls[turn % len(urls)]).netloc, timeout=ANSWER_S)
            asked = {"guard": click.sale.guard, "hold_ms": click.sale.hold_ms, "buyer": click.buyer.buyer}
            headers = {"Content-Type": "application/json", "Idempotency-Key": click.key}
            with closing(connection):
                connection.request("POST", "/stock/reduce", json.dumps(asked), headers)
                answer = json.load(connection.getresponse())
            word = str(answer["outcome"])
            return word, int(answer["stock"]) + 1 if word == Outcome.SOLD else None
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):  # no answer, or none of a shop
            return "", None
