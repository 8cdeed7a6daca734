"""The rush: 500 buyers come to a barrier, it opens, and each clicks exactly once. Then the ledger is judged.

    locust                              no lock against the etcd mutex, on a running stack (make up)
    locust --guards none etcd redis-lua --stock 100 --users 200 --hold-ms 5
    locust --headful                    the same from Locust's page on http://127.0.0.1:8089, as often as you like
    locust --opens-in 3                 a scheduled sale: some buyers click early, some too early, some on time
    locust --processes 2                the same with two processes of buyers

The other defaults are in pyproject.toml. The exit code is 0 if every guard kept its promise, 1 if one did not, and 2 if
there is no verdict.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import gevent
from locust import FastHttpUser, events, task
from locust.contrib.fasthttp import FAILURE_EXCEPTIONS

from app.contract.outcomes import Outcome
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
    parser.add_argument("--opens-in", type=int, default=0, help="Seconds until the sale opens; 0: it is open")
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
        gevent.sleep(max(round.opens_at - self.slot.lead_s - time.time(), 0.0))
        buyer_pool.report(round, self.shop(round))

    def connect(self) -> None:
        """Open the connection, outside the statistics, so that the burst has clicks alone."""
        with suppress(*FAILURE_EXCEPTIONS):
            self.client.client.urlopen(f"{self.host}/livez").read()

    def shop(self, round: Round) -> Answer:
        """Click; if the sale is not open yet, click again when the shop says."""
        until = max(round.opens_at, time.time()) + CLICK_TIMEOUT_S
        answer, retry_after_s = self.click(round)
        while answer.outcome is Outcome.NOT_OPEN and time.time() + retry_after_s < until:
            gevent.sleep(retry_after_s)
            answer, retry_after_s = self.click(round)
        return answer

    def click(self, round: Round) -> tuple[Answer, int]:
        """Buy one item: the answer, also counted by Locust, and the seconds after which to retry."""
        query = urlencode({"guard": round.guard, "hold_ms": round.hold_ms, "buyer": self.slot.buyer})
        sent = time.time()
        # An empty body, not none at all, which the geventhttpclient of Python 3.10 would send in chunks.
        with self.client.post(f"/stock/reduce?{query}", data="", catch_response=True) as response:
            times = {"sent": sent, "received": time.time()}
            answer = Answer.read(self.slot.buyer, self.host, response.status_code, response.content, **times)
            response.request_meta.update(request_type=round.guard, name=answer.outcome.value)
            if answer.outcome.is_served or (answer.outcome is Outcome.NOT_OPEN and sent < round.opens_at):
                response.success()
            else:
                response.failure(f"HTTP {response.status_code}" if response.status_code else str(response.error))
            return answer, int((response.headers or {}).get("Retry-After", 1))
