"""``make faults ARGS=payment``: what happens between a charge and its order, in a sale of this lab."""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random

from rich.console import Console

from labs.payment.contract import SUCCEEDED
from labs.payment.crowd import Crowd
from labs.payment.screen import Judged
from labs.payment.stage import PaymentStack, SaleResult
from labs.payment.ways import WAYS
from loadtest.language import Message
from loadtest.stack.apps import Instance
from loadtest.stack.process import ServerError, scratch_directory

GROUP = "payment"
FAULTS = {
    "payment-kill": "kill -9 of the instance between charge and confirmation",
    "payment-pause": "freeze the instance between charge and confirmation, until the others have bought",
    "payment-lost": "lose the answer of the provider, which has taken the money",
    "payment-kills": "kill -9 of instances and provider, again and again, in random order",
}
HARMS = {"payment-kill": Instance.kill, "payment-pause": Instance.pause}
CHARGED_S = 20.0  # at most, until a buyer's money is taken
BUYERS, KILL_BUYERS = 20, 50  # twice the items
MIXED = ("good", "late-answer", "good", "declined", "slow", "good", "late", "good", "lost-answer", "good")
STEP_S, KILLED, STARTED = 0.1, 0.06, 0.3  # so often, with these chances for each process


def play(names: Sequence[str], screen: Console, *, seed: int, language: str) -> list[Judged]:
    """Play these faults under each way for which they expect something, and tell the results; raises ServerError."""
    judged = list[Judged]()
    with scratch_directory() as directory, PaymentStack(directory) as stack:
        for name in names:
            screen.print(f"\n[bold]{name}[/]: {Message(FAULTS[name]).in_language(language)}")
            for way in ["reserve-checked"] if name == "payment-kills" else WAYS:
                judged.append(Judged(play_under(way, name, stack, Random(seed)), expected(name, way)))
                screen.print(f"  {way}: {judged[-1].sentence.in_language(language)}", markup=False)
    return judged


def expected(name: str, way: str) -> str:
    """The finding that the way has to show."""
    if way == "reserve-checked":
        return "exact"
    return "paid_twice" if (name, way) == ("payment-pause", "reserve") else "money_without_item"


def play_under(way: str, name: str, stack: PaymentStack, random: Random) -> SaleResult:
    """Sell under a way, and disturb it; raises ServerError."""
    if name == "payment-kills":
        return stack.sell(way, KILL_BUYERS // 2, lambda crowd: kill_all(stack, crowd, random))
    return stack.sell(way, BUYERS // 2, lambda crowd: harm_one(stack, crowd, name))


def harm_one(stack: PaymentStack, crowd: Crowd, name: str) -> None:
    """Harm the shop whose buyer has just been charged, until all others have their answers.

    That buyer never comes back: people close the page.
    """
    shop, victim = stack.instances[0], f"{crowd.sale}victim"
    card = "late-answer" if name in HARMS else "lost-answer"
    crowd.send(victim, card, [shop.url], comes_back=False)
    deadline = time.monotonic() + CHARGED_S
    while stack.client.find(victim) != SUCCEEDED:
        if time.monotonic() > deadline:
            raise ServerError(f"a buyer was not charged within {CHARGED_S:g} s: {shop.name} has logged why")
        time.sleep(0.01)
    if name in HARMS:
        HARMS[name](shop)
    others = [each.url for each in stack.instances if each.running and not each.frozen]
    for buyer in [crowd.send_next("good", others) for _ in range(BUYERS)]:
        buyer.join()
    stack.heal()


def kill_all(stack: PaymentStack, crowd: Crowd, random: Random) -> None:
    """Kill instances and provider while buyers come, and start what is dead."""
    targets = [*stack.instances, stack.provider]
    for number in range(KILL_BUYERS):
        crowd.send_next(MIXED[number % len(MIXED)], stack.urls)
        time.sleep(STEP_S)
        for process in targets:
            if process.running and random.random() < KILLED:
                process.kill()
            elif not process.running and random.random() < STARTED:
                process.launch()
    stack.heal()
