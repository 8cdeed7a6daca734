"""The leader that is to open the sale fails, just before the time or in the middle of the opening."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from itertools import dropwhile, pairwise
from operator import attrgetter

from app.contract.keys import key_prefix
from app.contract.outcomes import Outcome
from labs.faults.context import ScenarioContext
from labs.faults.scenario import Expected, Scenario
from labs.faults.scenarios.random_sequence import RandomSequence
from labs.faults.testbed import SALE, TTL_S, Setup, Shop
from labs.faults.threads import MistimedFault
from labs.opening.clients import schedule
from loadtest.results.record import Record
from loadtest.shop_client.sale import SaleClient
from loadtest.shop_client.shops import UNANSWERED, get_json
from loadtest.stack.proxy import REQUESTS

BEFORE_S = 0.3
SLACK_S = 1.5  # etcd looks for expired leases twice a second, and this machine is busy
OPENER = f"{key_prefix(SALE)}opener".encode()  # a key of the script that opens the sale


class Opening(Scenario):
    """Buyers click from the start; the sale opens once, in time, whatever becomes of the leader."""

    group = "opening"
    opens_in_s = 4  # from the reset on
    opens_at = 0.0  # in seconds since the epoch
    harm: attrgetter[Callable[[], None]]  # what is done to the leader, and what undoes it
    mend: attrgetter[Callable[[], None]]
    harmed: str
    mended: str

    def begin(self, sale: SaleClient, stock: int) -> None:
        """Have a leader open the sale."""
        self.opens_at = schedule(sale, stock, self.opens_in_s)

    def await_start(self, context: ScenarioContext) -> None:
        """The fault comes before the sale begins."""

    def play(self, context: ScenarioContext) -> None:
        context.wait_for("the election", lambda: self._leader(context))
        time.sleep(max(self.opens_at - BEFORE_S - time.time(), 0.0))
        leader = self._leader(context)
        if leader is None:
            raise MistimedFault("the leader has resigned already")
        self.fail(context, leader)

    def fail(self, context: ScenarioContext, leader: Shop) -> None:
        """Let the leader fail, and return when others have bought."""
        context.act(self.harm(leader), self.harmed, shop=leader.name, s=BEFORE_S)
        context.wait_for_sales()
        context.act(self.mend(leader), self.mended, shop=leader.name)
        context.wait_for_sales()

    def review(self, context: ScenarioContext, record: Record) -> None:
        sold = sorted(answer.answered_ms for answer in record.answers if answer.outcome is Outcome.SOLD)
        if not any(answer.status == 409 and answer.outcome is Outcome.ERROR for answer in record.answers):
            raise MistimedFault("no buyer came too early")
        context.require(not sold or sold[0] >= context.start.since_epoch(self.opens_at * 1000), "it was sold too early")
        late_s = (sold[0] - context.start.since_epoch(self.opens_at * 1000)) / 1000 if sold else self.opens_in_s
        flaw = "the first sale was {s} s late, with a TTL of {ttl} s"
        context.require_in_time(late_s <= TTL_S + SLACK_S, flaw, s=round(late_s, 1), ttl=TTL_S)
        # A closed sale has no stock.
        known = (sample.stock for sample in record.samples if sample.stock is not None)
        stocks = dropwhile(lambda stock: not stock, known)
        falls = all(later <= earlier for earlier, later in pairwise(stocks))
        context.require(falls, "the sale was opened twice")

    def _leader(self, context: ScenarioContext) -> Shop | None:
        """The shop that leads; `None` while there is none, or the shop that is asked does not answer."""
        with suppress(*UNANSWERED):
            name = get_json(f"{context.shops[0].url}/sale")["leader"]
            return next((shop for shop in context.shops if shop.name == name), None)
        return None


class KillLeader(Opening):
    """Kill -9 of the leader that is to open the sale, just before the time.

    Its key goes with its lease, and the other instance opens the sale.
    """

    name = "opening-kill"
    sort_key = 120
    harm, harmed = attrgetter("instance.kill"), "{shop} leads, and is killed {s} s before the time"
    mend, mended = attrgetter("instance.launch"), "{shop} is started again"


class PauseLeader(Opening):
    """Freeze the leader just before the time, thaw it when others have sold.

    It wakes up when its lease is over, the sale open, and its time long past.
    """

    name = "opening-pause"
    sort_key = 130
    harm, harmed = attrgetter("instance.pause"), "{shop} leads, and is frozen {s} s before the time"
    mend, mended = attrgetter("instance.resume"), "{shop} is thawed, and believes that it leads"


class CutLeader(Opening):
    """Cut the leader off from etcd, not from Redis, just before its lease would be renewed.

    The leader could still reach Redis, and does not open the sale: without a lease it does not lead.
    """

    name = "opening-cut"
    sort_key = 140
    harm, harmed = attrgetter("to_etcd.stall"), "{shop} leads, and hears nothing from etcd any more"
    mend, mended = attrgetter("to_etcd.resume"), "{shop} and etcd hear each other again"


class LateOpening(Opening):
    """Cut the leader off when its opening is under way; deliver it when others have sold.

    The leader had every right to open the sale when it sent the command, which arrives when others have sold.
    """

    name = "opening-late"
    sort_key = 150

    def fail(self, context: ScenarioContext, leader: Shop) -> None:
        leader.to_redis.hold_matching(OPENER)
        context.wait_for("the opening", lambda: OPENER in leader.to_redis.held_back(REQUESTS))
        leader.to_redis.stall(REQUESTS)
        sent = "{shop} has sent the opening and is cut off from the network"
        context.act(leader.to_etcd.stall, sent, shop=leader.name)
        context.let_others_buy()
        context.act(leader.lines.resume, "the network is back, and delivers the opening")
        context.buyers.admission.set()


class OpenedTwice(LateOpening):
    """The same without the fence, which has to break: the sale is opened twice.

    As one would write it first: the leader opens whatever it finds. What was sold is for sale once more.
    """

    name = "opening-unfenced"
    sort_key = 160
    setup = Setup(settings={"FLASHSALE_OPENER": "unfenced"})
    fenced = unfenced = Expected.BREAKS

    def review(self, context: ScenarioContext, record: Record) -> None:
        """The verdict says it all."""


class RandomOpening(RandomSequence):
    """The same around a scheduled opening."""

    name = "random-opening"
    sort_key = 240

    def begin(self, sale: SaleClient, stock: int) -> None:
        """Have a leader open the sale."""
        schedule(sale, stock, opens_in_s=2)

    def await_start(self, context: ScenarioContext) -> None:
        """The faults come before the sale begins."""
