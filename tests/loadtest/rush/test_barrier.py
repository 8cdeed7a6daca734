"""The pool of one process: the buyers of each round, and the messages to the master."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from loadtest.results.answer import Answer, Outcome
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


class Turnstile:
    """A barrier that is shut, and still lets all through: here is one thread for all buyers."""

    def is_set(self) -> bool:
        return False

    def wait(self) -> None:
        return


@pytest.fixture
def runner() -> Runner:
    """The runner of this process."""
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


def test_buyers_have_names_and_take_the_hosts_in_turn(pool: BuyerPool) -> None:
    """No two buyers share a name, and every instance gets its share of them."""
    slots = [pool.add(HOSTS) for _ in range(4)]
    assert [slot.host for slot in slots] == HOSTS * 2
    assert [slot.buyer.split("-")[2:] for slot in slots] == [["3", str(number)] for number in range(4)]


def test_all_buyers_are_invited_to_every_round(pool: BuyerPool, runner: Runner) -> None:
    """Each buyer gets each round once, and the round knows how many will come; a buyer that left is not among them."""
    slots, gone = [pool.add(HOSTS) for _ in range(3)], pool.add(HOSTS)
    pool.remove(gone)
    runner.announce(1)
    runner.announce(2)
    rounds = [invited(slot) for slot in slots]
    assert rounds == [rounds[0]] * 3
    assert [(round.number, round.expected) for round in rounds[0]] == [(1, 3), (2, 3)]
    assert invited(gone) == []


def test_a_late_buyer_takes_part_until_the_opening(pool: BuyerPool, runner: Runner) -> None:
    """A buyer that comes between announcement and opening is invited to that round, a later one to the next."""
    runner.announce(1)
    early = pool.add(HOSTS)
    runner.hear("open", number=1, opens_at=0.0)
    late = pool.add(HOSTS)
    (first,) = invited(early)
    assert (invited(late), first.number, first.expected) == ([], 1, 1)
    runner.announce(2)
    assert invited(late) == invited(early)


def test_an_opening_is_for_its_own_round(pool: BuyerPool, runner: Runner) -> None:
    """An opening that comes late, of a round that is over, leaves the barrier of the next one shut."""
    slot = pool.add(HOSTS)
    runner.announce(1)
    runner.announce(2)
    first, second = invited(slot)
    runner.hear("open", number=1, opens_at=0.0)
    assert not second.gate.is_set()
    runner.hear("open", number=2, opens_at=0.0)
    assert second.gate.is_set()
    assert not first.gate.is_set()


def test_the_master_counts_each_buyer_once(pool: BuyerPool, runner: Runner) -> None:
    """Arrivals are told when all expected buyers are there; of later buyers, only they are told."""
    pool.add(HOSTS)
    slot = pool.add(HOSTS)
    runner.announce(1)
    (round,) = invited(slot)
    round.gate = Turnstile()
    pool.wait_for_everyone(round, "ada")
    assert runner.sent == []
    pool.wait_for_everyone(round, "bob")
    pool.add(HOSTS)
    pool.wait_for_everyone(round, "cleo")
    assert runner.sent == [("arrived", {"number": 1, "buyers": buyers}) for buyers in (["ada", "bob"], ["cleo"])]


def test_buyers_of_the_last_test_are_not_invited(pool: BuyerPool, runner: Runner) -> None:
    """A new test has its own buyers, with other names, and does not wait for those of the last test."""
    before = pool.add(HOSTS)
    runner.announce(1)
    invited(before)
    pool.reset()
    after = pool.add(HOSTS)
    assert invited(after) == []
    assert after.buyer != before.buyer
    runner.announce(1)
    (round,) = invited(after)
    assert (invited(before), round.expected) == ([], 1)


def test_answers_come_in_portions(pool: BuyerPool, runner: Runner) -> None:
    """The master gets every answer once, in portions of 25, and the rest with the last one."""
    slots = [pool.add(HOSTS) for _ in range(60)]
    runner.announce(1)
    (round,) = invited(slots[0])
    for number in range(60):
        pool.report(round, Answer(str(number), Outcome.SOLD, "shop-a"))
    portions = [data["answers"] for message, data in runner.sent if message == "answers"]
    assert [len(portion) for portion in portions] == [25, 25, 10]
    assert [answer[0] for portion in portions for answer in portion] == [str(number) for number in range(60)]
