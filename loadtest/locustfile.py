"""The rush: 500 buyers come to a barrier, it opens, and each clicks exactly once. Then the ledger is judged.

    locust                              no lock against the etcd mutex, on a running stack (make up)
    locust --guards none etcd redis-lua --stock 100 --users 200 --hold-ms 5
    locust --headful                    the same from Locust's page on http://127.0.0.1:8089, as often as you like
    locust --processes 2                the same with two processes of buyers

The other defaults are in pyproject.toml. The exit code is 0 if every guard kept its promise, 1 if one did not, and 2 if
there is no verdict.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from locust import FastHttpUser, events, task
from locust.contrib.fasthttp import FAILURE_EXCEPTIONS

from loadtest.language import ENGLISH, LANGUAGES
from loadtest.results.answer import Answer
from loadtest.rush.barrier import BuyerPool, Round
from loadtest.rush.conductor import CLICK_TIMEOUT_S, DEFAULT_GUARDS
from loadtest.rush.locust_events import LocustHooks
from loadtest.shop_client.shops import find, hosts_of

buyer_pool = BuyerPool()
hooks = LocustHooks(events, buyer_pool)


@events.init_command_line_parser.add_listener  # type: ignore[untyped-decorator]
def add_options(parser: Any) -> None:
    """The options of a rush besides Locust's --users and --host; its page has them as fields."""
    listed = {"nargs": "+", "is_multiple": True, "choices": hooks.offered_guards, "default": DEFAULT_GUARDS}
    parser.add_argument("--guards", metavar="GUARD", help="Each has its own rush; GET /guards lists all", **listed)
    parser.add_argument("--stock", type=int, default=300, help="Items for sale")
    parser.add_argument("--hold-ms", type=int, default=0, help="Think time inside the critical section, milliseconds")
    parser.add_argument("--language", choices=LANGUAGES, default=ENGLISH, include_in_web_ui=False, help="Of the texts")
    parser.add_argument("--report", metavar="<filename>", include_in_web_ui=False, help="Write the comparison as JSON")


class Buyer(FastHttpUser):
    """A buyer of one item, with one click when the sale opens."""

    host = "http://127.0.0.1:8080,http://127.0.0.1:8090"
    network_timeout = CLICK_TIMEOUT_S

    def __init__(self, environment: Any) -> None:
        self.slot = buyer_pool.add(find(hosts_of(self.host)))
        self.host = self.slot.host
        super().__init__(environment)

    def on_stop(self) -> None:
        buyer_pool.remove(self.slot)

    @task
    def buy(self) -> None:
        """One round: connect, wait for everyone, click, and report the answer."""
        round = self.slot.rounds.get()
        self.connect()
        buyer_pool.wait_for_everyone(round, self.slot.buyer)
        buyer_pool.report(round, self.shop(round))

    def connect(self) -> None:
        """Open the connection, outside the statistics, so that the burst has clicks alone."""
        with suppress(*FAILURE_EXCEPTIONS):
            self.client.client.urlopen(f"{self.host}/livez").read()

    def shop(self, round: Round) -> Answer:
        """The answer to the buyer's click."""
        return self.click(round)

    def click(self, round: Round) -> Answer:
        """Buy one item; the answer is also counted by Locust."""
        query = urlencode({"guard": round.guard, "hold_ms": round.hold_ms, "buyer": self.slot.buyer})
        sent = time.time()
        # An empty body, not none at all, which the geventhttpclient of Python 3.10 would send in chunks.
        with self.client.post(f"/stock/reduce?{query}", data="", catch_response=True) as response:
            times = {"sent": sent, "received": time.time()}
            answer = Answer.read(self.slot.buyer, self.host, response.status_code, response.content, **times)
            response.request_meta.update(request_type=round.guard, name=answer.outcome.value)
            self.count(round, answer, response)
            return answer

    def count(self, round: Round, answer: Answer, response: Any) -> None:
        """Tell Locust whether the click was served."""
        if answer.outcome.is_served:
            response.success()
        else:
            response.failure(f"HTTP {response.status_code}" if response.status_code else str(response.error))
