"""A rush at a scheduled opening: a third of the buyers clicks at once, a third 0.2 s too early, a third on time.

    locust -f labs/opening/locustfile.py --guards etcd --opens-in 3

A buyer that is told "not open" comes back when the shop says. Everything else is the core's rush.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import gevent
from locust import events

from app.contract.outcomes import Outcome
from labs.opening.clients import schedule
from loadtest import locustfile
from loadtest.results.answer import Answer
from loadtest.rush.barrier import Round
from loadtest.rush.conductor import CLICK_TIMEOUT_S

LEADS_S = (math.inf, 0.2, 0.0)  # of every third buyer: how long before the opening it clicks
SLACK_MS = 5.0  # by which the clocks of Redis and of the buyers may differ on one machine
RETRY_S = 1.0  # if the shop does not say


@events.init_command_line_parser.add_listener  # type: ignore[untyped-decorator]
def add_option(parser: Any) -> None:
    """The time of the opening; Locust's page has it as a field."""
    parser.add_argument("--opens-in", type=int, default=3, help="Seconds until the sale opens")


@events.test_start.add_listener  # type: ignore[untyped-decorator]
def schedule_sales(environment: Any, **_: Any) -> None:
    """Have a leader open each sale of this test."""
    opens_in_s = environment.parsed_options.opens_in
    locustfile.hooks.prepare = lambda sale, plan: schedule(sale, plan.stock, opens_in_s)


class EarlyBuyer(locustfile.Buyer):
    """A buyer that may click before the opening, and comes back."""

    retry_after_s: float | None = None  # when to come back, after an answer "not open"; `None` after others

    def shop(self, round: Round) -> Answer:
        """The answer to the buyer's last click; one that sold before the opening is an error, and its order a flaw."""
        lead_s = LEADS_S[int(self.slot.buyer.rpartition("-")[2]) % len(LEADS_S)]
        gevent.sleep(max(round.starts_at - lead_s - time.time(), 0.0))
        until = round.starts_at + CLICK_TIMEOUT_S
        answer = self.click(round)
        while self.retry_after_s is not None and time.time() + self.retry_after_s < until:
            gevent.sleep(self.retry_after_s)
            answer = self.click(round)
        if answer.outcome is Outcome.SOLD and answer.answered_ms < round.starts_at * 1000 - SLACK_MS:
            return replace(answer, outcome=Outcome.ERROR, order=None, detail="sold before the opening")
        return answer

    def count(self, round: Round, answer: Answer, response: Any) -> None:
        """Count "not open", the one refusal by 409 that the core does not know; before the opening it is the truth."""
        is_not_open = answer.outcome is Outcome.ERROR and answer.status == 409
        self.retry_after_s = float(response.headers.get("Retry-After", RETRY_S)) if is_not_open else None
        if is_not_open:
            response.request_meta.update(name="not_open")
        if is_not_open and answer.sent_ms < round.starts_at * 1000:
            response.success()
        else:
            super().count(round, answer, response)
