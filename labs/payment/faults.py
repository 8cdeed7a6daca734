"""What is done to a sale between a charge and its order, and what has to come of it under each way."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from labs.payment.contract import SUCCEEDED
from labs.payment.crowd import Crowd
from labs.payment.stage import PaymentStack, Stage
from loadtest.language import Message
from loadtest.stack.apps import Instance
from loadtest.stack.process import ServerError

ITEMS, BUYERS = 10, 20
CHARGED_S = 20.0  # at most, until the victim's money is taken
Announce = Callable[[Message], None]


@dataclass(frozen=True)
class Fault(ABC):
    """One way to disturb a sale; the first line of its docstring says what it does.

    Attributes:
        name: as the command line knows it.
        items: on the shelf.
        expected: the finding that each way must show, by its name; "" for none, which is EXACT.
    """

    name: ClassVar[str]
    items: ClassVar[int] = ITEMS
    expected: ClassVar[Mapping[str, str]]
    stage: Stage
    announce: Announce
    random: Random

    @classmethod
    def summary(cls) -> str:
        """The first line, as the end of a sentence."""
        line = str(cls.__doc__).partition("\n")[0].removesuffix(".")
        return line[0].lower() + line[1:]

    @property
    def stack(self) -> PaymentStack:
        return self.stage.stack

    @abstractmethod
    def play(self, crowd: Crowd) -> None:
        """Send the buyers, and disturb the sale; raises ServerError."""


class VictimFault(Fault):
    """Something happens to a buyer who is charged, and to the shop that waits for the answer.

    That buyer never comes back: people close the page.
    """

    card: ClassVar[str]
    struck: ClassVar[str]

    def play(self, crowd: Crowd) -> None:
        shop, victim = self.stack.instances[0], f"{crowd.sale}victim"
        waiting = crowd.send(victim, self.card, [shop.url], comes_back=False)
        deadline = time.monotonic() + CHARGED_S
        while self.stage.provider.find(victim) != SUCCEEDED:
            if time.monotonic() > deadline:
                raise ServerError(f"the victim was not charged within {CHARGED_S:g} s: {shop.name} has logged why")
            time.sleep(0.01)
        self.strike(shop)
        self.announce(Message.of(self.struck, way=crowd.way))
        others = [each.url for each in self.stack.instances if each.running and not each.frozen]
        for buyer in [crowd.send_next("good", others) for _ in range(BUYERS)]:
            buyer.join()
        self.mend(shop)
        waiting.join()

    def strike(self, shop: Instance) -> None:
        """Do it, when the money is taken and before the order is written."""

    def mend(self, shop: Instance) -> None:
        """Undo it, when all others have their answers."""


class Kill(VictimFault):
    """Kill -9 of the instance between charge and confirmation."""

    name = "payment-kill"
    card = "late-answer"
    struck = "{way}: a buyer is charged, and the instance is killed before it knows"
    expected: ClassVar = {"pay-inside": "money_without_item", "reserve": "money_without_item", "reserve-checked": ""}

    def strike(self, shop: Instance) -> None:
        shop.kill()


class Pause(VictimFault):
    """Freeze the instance between charge and confirmation, until the others have bought."""

    name = "payment-pause"
    card = "late-answer"
    struck = "{way}: a buyer is charged, and the instance is frozen"
    expected: ClassVar = {"pay-inside": "money_without_item", "reserve": "paid_twice", "reserve-checked": ""}

    def strike(self, shop: Instance) -> None:
        shop.pause()

    def mend(self, shop: Instance) -> None:
        shop.resume()


class LostAnswer(VictimFault):
    """Lose the answer of the provider, which has taken the money."""

    name = "payment-lost"
    card = "lost-answer"
    struck = "{way}: a buyer is charged, and the shop never hears of it"
    expected: ClassVar = {"pay-inside": "money_without_item", "reserve": "money_without_item", "reserve-checked": ""}


class Kills(Fault):
    """Kill -9 of instances and provider, again and again, in random order."""

    name = "payment-kills"
    expected: ClassVar = {"reserve-checked": ""}
    cards = ("good", "late-answer", "good", "declined", "slow", "good", "late", "good", "lost-answer", "good")
    items, rounds, step_s = 25, 5, 0.1

    def play(self, crowd: Crowd) -> None:
        targets = [*self.stack.instances, self.stack.provider]
        killed = 0
        for card in self.cards * self.rounds:
            crowd.send_next(card, self.stack.urls)
            time.sleep(self.step_s)
            for process in targets:
                if not process.running and self.random.random() < 0.3:
                    process.launch()
                elif process.running and self.random.random() < 0.06:
                    process.kill()
                    killed += 1
        for process in targets:
            process.launch()
        self.announce(Message.of("{way}: {n} times an instance or the provider was killed", way=crowd.way, n=killed))


FAULTS: dict[str, type[Fault]] = {each.name: each for each in (Kill, Pause, LostAnswer, Kills)}
