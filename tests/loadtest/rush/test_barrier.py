"""The crowd of one process: who takes part in which round, and what its master is told."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from loadtest.results.answer import Answer, Outcome
from loadtest.rush.barrier import Crowd, Place, Round

HOSTS = ["http://shop-a", "http://shop-b"]


class Runner:
    """Locust's runner, as the crowd knows it; remembers what the master is sent."""

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
    """A barrier that is shut, and still lets everybody through: here is one thread for all buyers."""

    def is_set(self) -> bool:
        return False

    def wait(self) -> None:
        return


@pytest.fixture
def runner() -> Runner:
    """The runner of this process."""
    return Runner()


@pytest.fixture
def crowd(runner: Runner) -> Crowd:
    """A crowd without buyers, at the beginning of a test."""
    crowd = Crowd()
    crowd.listen(runner)
    crowd.disperse()
    return crowd


def invited(place: Place) -> list[Round]:
    """The rounds that a buyer is invited to and has not come to yet."""
    return [place.rounds.get() for _ in range(place.rounds.qsize())]


def test_buyers_have_names_and_take_the_hosts_in_turn(crowd: Crowd) -> None:
    """No two buyers share a name, and every instance gets its share of them."""
    places = [crowd.enrol(HOSTS) for _ in range(4)]
    assert [place.host for place in places] == HOSTS * 2
    assert [place.buyer.split("-")[2:] for place in places] == [["3", str(number)] for number in range(4)]


def test_everybody_is_invited_to_every_round(crowd: Crowd, runner: Runner) -> None:
    """Each buyer gets each round once, and the round knows how many will come."""
    places = [crowd.enrol(HOSTS) for _ in range(3)]
    runner.announce(1)
    runner.announce(2)
    rounds = [invited(place) for place in places]
    assert rounds == [rounds[0]] * 3
    assert [(round.number, round.expected) for round in rounds[0]] == [(1, 3), (2, 3)]


def test_who_left_is_not_invited(crowd: Crowd, runner: Runner) -> None:
    """A buyer who has left is neither invited nor waited for."""
    gone, there = crowd.enrol(HOSTS), crowd.enrol(HOSTS)
    crowd.leave(gone)
    runner.announce(1)
    (round,) = invited(there)
    assert (invited(gone), round.expected) == ([], 1)


def test_who_comes_late_still_takes_part(crowd: Crowd, runner: Runner) -> None:
    """A buyer who enrols between the announcement and the opening is invited to that round."""
    runner.announce(1)
    (round,) = invited(crowd.enrol(HOSTS))
    assert (round.number, round.expected) == (1, 1)


def test_who_comes_after_the_opening_waits_for_the_next_round(crowd: Crowd, runner: Runner) -> None:
    """A buyer who enrols when the barrier is open is not invited to that burst, and is to the next one."""
    early = crowd.enrol(HOSTS)
    runner.announce(1)
    runner.hear("open", number=1)
    late = crowd.enrol(HOSTS)
    (first,) = invited(early)
    assert (invited(late), first.expected) == ([], 1)
    runner.announce(2)
    assert invited(late) == invited(early)


def test_an_opening_is_for_its_own_round(crowd: Crowd, runner: Runner) -> None:
    """An opening that comes late, of a round that is over, leaves the barrier of the next one shut."""
    place = crowd.enrol(HOSTS)
    runner.announce(1)
    runner.announce(2)
    first, second = invited(place)
    runner.hear("open", number=1)
    assert not second.gate.is_set()
    runner.hear("open", number=2)
    assert second.gate.is_set()
    assert not first.gate.is_set()


def test_the_master_counts_everybody_once(crowd: Crowd, runner: Runner) -> None:
    """Arrivals are told when all who are expected are there; of those who come later, only they are told."""
    crowd.enrol(HOSTS)
    place = crowd.enrol(HOSTS)
    runner.announce(1)
    (round,) = invited(place)
    round.gate = Turnstile()
    crowd.wait_for_everyone(round)
    assert runner.sent == []
    crowd.wait_for_everyone(round)
    crowd.enrol(HOSTS)
    crowd.wait_for_everyone(round)
    assert runner.sent == [("arrived", {"number": 1, "buyers": buyers}) for buyers in (2, 1)]


def test_nobody_of_the_last_test_is_invited(crowd: Crowd, runner: Runner) -> None:
    """A new test has buyers of its own, with other names; it is not waited for those of the one before."""
    before = crowd.enrol(HOSTS)
    runner.announce(1)
    invited(before)
    crowd.disperse()
    after = crowd.enrol(HOSTS)
    assert invited(after) == []
    assert after.buyer != before.buyer
    runner.announce(1)
    (round,) = invited(after)
    assert (invited(before), round.expected) == ([], 1)


def test_answers_come_in_portions(crowd: Crowd, runner: Runner) -> None:
    """The master gets every answer once, in portions of 25, and the rest with the last one."""
    places = [crowd.enrol(HOSTS) for _ in range(60)]
    runner.announce(1)
    (round,) = invited(places[0])
    for number in range(60):
        crowd.report(round, Answer(str(number), Outcome.SOLD, "shop-a"))
    portions = [data["answers"] for message, data in runner.sent if message == "answers"]
    assert [len(portion) for portion in portions] == [25, 25, 10]
    assert [answer[0] for portion in portions for answer in portion] == [str(number) for number in range(60)]
