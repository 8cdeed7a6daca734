"""The pool of one process: the buyers of each round, and the messages to the master."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from loadtest.rush.barrier import BuyerPlace, BuyerPool, Round

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

    def hear(self, message: str, worker: str = "local", **data: Any) -> None:
        """The master, or a worker, says something."""
        self._listeners[message](environment=None, msg=SimpleNamespace(node_id=worker, data=data))

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


def invited(slot: BuyerPlace) -> list[Round]:
    """The rounds that a buyer is invited to and has not come to yet."""
    return [slot.rounds.get() for _ in range(slot.rounds.qsize())]


def test_a_late_buyer_takes_part_until_the_opening(pool: BuyerPool, runner: Runner) -> None:
    """A buyer that comes before the opening is invited to that round, a later one to the next, one that left never."""
    pool.remove(gone := pool.add(HOSTS))
    runner.announce(1)
    early = pool.add(HOSTS)
    runner.hear("open", starts_at=0.0)
    late = pool.add(HOSTS)
    (first,) = invited(early)
    assert (invited(late), invited(gone), first.number, first.expected) == ([], [], 1, 1)
    runner.announce(2)
    assert invited(late) == invited(early)
