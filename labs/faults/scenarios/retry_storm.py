"""Many answers are lost, and all those buyers retry."""

from __future__ import annotations

import time

from labs.faults.context import ScenarioContext
from labs.faults.scenario import Scenario
from labs.faults.threads import MistimedFault
from loadtest.results.record import Record
from loadtest.stack.proxy import ANSWERS, Lines

WAVES = 6
FEWEST = 10


class RetryStorm(Scenario):
    """Lose the answers to the buyers, again and again; they retry with the same idempotency key.

    The purchases were made, and their answers were lost: the idempotency key gives each its first answer.
    """

    name = "retry-storm"
    sort_key = 100

    def play(self, context: ScenarioContext) -> None:
        fronts = Lines(line for shop in context.shops for line in shop.front)
        context.announce("answers are lost")
        for _ in range(WAVES):
            fronts.stall(ANSWERS)
            time.sleep(0.3)
            fronts.reset()
            fronts.resume()
            time.sleep(0.1)
        context.announce("answers arrive again")

    def review(self, context: ScenarioContext, record: Record) -> None:
        replays = sum(section.cause == "replayed" for section in record.sections)
        lost = sum(answer.status == 0 for answer in record.answers)
        if min(lost, replays) < FEWEST:
            raise MistimedFault("only {lost} answers were lost, and {n} given again", lost=lost, n=replays)
