"""The pool of one process: the buyers of each round, and the messages to the master."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from loadtest.rush.barrier import BuyerPool, Round, Slot

HOSTS = ["http://shop-a", "http://shop-b"]


class Runner:
    """Locust's runner, as the pool knows it; remembers what the master is sent."""

    worker_index = 3

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self._listeners: dict[str, Callable[..., None]] = {}

    def register_message(self, message: str, listener: Callable[..., None]) -> None:
        self._listeners[message] = listener

    def send_message(self, message: str, data: dict[str, Any]) -> None:
        self.sent.append((message, data))

    def hear(self, message: str, **data: Any) -> None:
        """The master says something."""
        self._listeners[message](environment=None, msg=SimpleNamespace(data=data))

    def announce(self, number: int) -> None:
        """The master announces a round."""
        self.hear("round", number=number, guard="etcd", hold_ms=0)


@pytest.fixture
def runner() -> Runner:
    return Runner()


@pytest.fixture
def pool(runner: Runner) -> BuyerPool:
    """A pool without buyers, at the beginning of a test."""
    pool = BuyerPool()
    pool.listen(runner)
    pool.reset()
    return pool


def invited(slot: Slot) -> list[Round]:
    """The rounds that a buyer is invited to and has not come to yet."""
    return [slot.rounds.get() for _ in range(slot.rounds.qsize())]


def test_the_master_is_told_once_all_buyers_are_there(pool: BuyerPool, runner: Runner) -> None:
    """Each buyer of the process is invited to the round; the last one at the barrier has the arrivals told."""
    slots = [pool.add(HOSTS) for _ in range(2)]
    runner.announce(1)
    rounds = [round for slot in slots for round in invited(slot)]
    assert [(round.number, round.expected, round.gate.is_set()) for round in rounds] == [(1, 2, False)] * 2
    runner.hear("open", opens_at=5.0)  # or else the first one would wait here
    pool.wait_for_everyone(rounds[0], "ada")
    assert (runner.sent, rounds[0].opens_at) == ([], 5.0)
    pool.wait_for_everyone(rounds[1], "bob")
    assert runner.sent == [("arrived", {"number": 1, "buyers": ["ada", "bob"]})]


def test_buyers_of_the_last_test_are_not_invited(pool: BuyerPool, runner: Runner) -> None:
    """A new test has its own buyers, with other names, and does not wait for those of the last test."""
    before = pool.add(HOSTS)
    runner.announce(1)
    pool.reset()
    after = pool.add(HOSTS)
    assert (invited(after), after.buyer == before.buyer) == ([], False)
    runner.announce(1)
    assert ([each.expected for each in invited(after)], len(invited(before))) == ([1], 1)
