"""``make faults ARGS=payment``: faults with a sale, a judge and a table of this lab."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from rich.console import Console

from labs.payment import faults
from labs.payment.screen import Judged, results_table
from labs.payment.stage import PaymentStack, Stage
from labs.payment.ways import WAYS
from loadtest.language import Message
from loadtest.stack.process import scratch_directory

GROUP = "payment"
FAULTS = {name: fault.summary() for name, fault in faults.FAULTS.items()}


def play(names: Sequence[str], screen: Console, *, seed: int, language: str) -> list[Judged]:
    """Play these faults under each way for which they expect something, and show the results; raises ServerError."""
    judged = list[Judged]()
    with scratch_directory() as directory, PaymentStack(directory) as stack:
        stage = Stage(stack)
        for name in names:
            fault = faults.FAULTS[name]
            screen.print(f"\n[bold]{name}[/]: {Message(FAULTS[name]).in_language(language)}")

            def announce(what: Message) -> None:
                screen.print(f"  {what.in_language(language)}", markup=False)

            for way in filter(fault.expected.__contains__, WAYS):
                result = stage.sell(way, fault.items, fault(stage, announce, Random(seed)).play)
                judged.append(Judged(result, fault.expected[way], fault=name))
    screen.print()
    screen.print(results_table(judged, language))
    return judged
