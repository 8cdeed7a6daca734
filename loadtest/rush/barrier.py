"""The buyers of one Locust process, and the barrier that turns their clicks into one burst.

A rush has a round for each guard. The master announces a round; every buyer connects and comes to the barrier; when
all buyers of all processes are there, the master opens it. Every round has its own gate, so nothing is left over for
the next round or the next test.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from gevent.event import Event
from gevent.queue import SimpleQueue

from loadtest.results.answer import Answer

_BATCH = 25  # arrivals or answers in a message: progress is visible, and messages cost nothing


@dataclass(eq=False)
class Round:
    """One burst of clicks.

    Attributes:
        number: rises with every round of a test.
        expected: buyers of this process that take part, those included that come before the burst.
        unannounced: buyers that arrived and that the master was not told of.
        gate: the barrier; open from the burst on.
        starts_at: when the sale begins, in seconds since the epoch; 0.0: it has begun.
    """

    number: int
    guard: str
    hold_ms: int
    expected: int = 0
    arrived: int = 0
    unannounced: list[str] = field(default_factory=list)
    answered: int = 0
    answers: list[Answer] = field(default_factory=list)
    gate: Event = field(default_factory=Event)
    starts_at: float = 0.0


@dataclass(eq=False)
class BuyerPlace:
    """A buyer's slot in the pool: a name that ends with its number, an instance to buy from, the rounds to come."""

    buyer: str
    host: str
    rounds: SimpleQueue[Round] = field(default_factory=SimpleQueue)


class BuyerPool:
    """The buyers of this process. `runner` is Locust's; messages go to its master, which may be itself."""

    def __init__(self) -> None:
        self._runner: Any = None
        self._slots: set[BuyerPlace] = set()
        self._added = 0
        self._test = ""
        self._round: Round | None = None

    def listen(self, runner: Any) -> None:
        self._runner = runner
        runner.register_message("round", self._on_round)
        runner.register_message("open", self._on_open)

    def reset(self) -> None:
        """Forget the buyers of the last test.

        The next have other names: purchases of a test that was stopped may still be under way in the shops.
        """
        self._slots.clear()
        self._test = secrets.token_hex(2)
        self._added = 0
        self._round = None

    def add(self, hosts: Sequence[str]) -> BuyerPlace:
        """A slot for another buyer; buyers take the hosts in turn."""
        name = f"buyer-{self._test}-{self._runner.worker_index}-{self._added}"
        slot = BuyerPlace(name, hosts[self._added % len(hosts)])
        self._added += 1
        self._slots.add(slot)
        if self._round is not None and not self._round.gate.is_set():
            self._invite(slot, self._round)
        return slot

    def remove(self, slot: BuyerPlace) -> None:
        self._slots.discard(slot)

    def _on_round(self, environment: Any, msg: Any, **_: Any) -> None:
        self._round = Round(**msg.data)
        for slot in self._slots:
            self._invite(slot, self._round)

    def _invite(self, slot: BuyerPlace, round: Round) -> None:
        round.expected += 1
        slot.rounds.put(round)

    def _on_open(self, environment: Any, msg: Any, **_: Any) -> None:
        if self._round is not None:
            self._round.starts_at = msg.data["starts_at"]
            self._round.gate.set()

    def wait_for_everyone(self, round: Round, buyer: str) -> None:
        """Wait at the barrier; returns for all buyers at once."""
        round.arrived += 1
        round.unannounced.append(buyer)
        if len(round.unannounced) == _BATCH or round.arrived == round.expected:
            self._tell("arrived", round, buyers=round.unannounced)
            round.unannounced = []
        round.gate.wait()

    def report(self, round: Round, answer: Answer) -> None:
        round.answers.append(answer)
        round.answered += 1
        if len(round.answers) == _BATCH or round.answered == round.expected:
            self._tell("answers", round, answers=[astuple(answer) for answer in round.answers])
            round.answers.clear()

    def _tell(self, message: str, round: Round, **data: Any) -> None:
        self._runner.send_message(message, {"number": round.number, **data})
