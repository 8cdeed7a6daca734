"""The leader that is to open the sale fails, just before the time or in the middle of the opening."""

from __future__ import annotations

import time
from abc import abstractmethod
from itertools import pairwise

from loadtest.faults.context import ScenarioContext
from loadtest.faults.scenario import Expected, Scenario
from loadtest.faults.testbed.protocols import TTL_S, Shop
from loadtest.faults.threads import MistimedFault
from loadtest.results.audit import Audit
from loadtest.results.record import Record
from loadtest.stack.proxy import REQUESTS
from loadtest.target.sale import Sale
from loadtest.target.shops import get_json

OPENS_IN_S = 4
BEFORE_S = 0.3
SLACK_S = 1.5  # etcd looks for expired leases twice a second, and this machine is busy
OPENER = b":opener"  # a key of the script that opens the sale


class Opening(Scenario):
    """Buyers click from the start; the sale opens once, in time, whatever becomes of the leader."""

    lines = True  # Docker's healing would take longer than the opening

    def begin(self, sale: Sale, stock: int) -> None:
        self._opens_at = time.monotonic() + OPENS_IN_S
        sale.schedule(stock, OPENS_IN_S)

    def play(self, context: ScenarioContext) -> None:
        self._opens_ms = context.start.elapsed_ms() + (self._opens_at - time.monotonic()) * 1000
        context.wait_for("the election", lambda: self._leader(context))
        time.sleep(max(self._opens_at - BEFORE_S - time.monotonic(), 0.0))
        leader = self._leader(context)
        if leader is None:
            raise MistimedFault("the leader has resigned already")
        self.fail(context, leader)

    @abstractmethod
    def fail(self, context: ScenarioContext, leader: Shop) -> None:
        """Let the leader fail, and return when others have bought."""

    def review(self, context: ScenarioContext, record: Record, found: Audit) -> None:
        sold = sorted(answer.answered_ms for answer in record.answers if answer.outcome == "sold")
        context.require(any(answer.outcome == "not_open" for answer in record.answers), "no buyer came too early")
        context.require(sold[:1] > [self._opens_ms], "an item was sold before the opening")
        late_s = (sold[0] - self._opens_ms) / 1000 if sold else OPENS_IN_S
        context.require(
            late_s <= TTL_S + SLACK_S, f"the first item was sold {late_s:.1f} s late, with a TTL of {TTL_S} s"
        )
        stocks = [sample.stock for sample in record.samples if sample.stock is not None]
        context.require(all(later <= earlier for earlier, later in pairwise(stocks)), "the sale was opened twice")

    def _leader(self, context: ScenarioContext) -> Shop | None:
        name = get_json(f"{context.shops[0].url}/sale")["leader"]
        return next((shop for shop in context.shops if shop.name == name), None)


class KillLeader(Opening):
    """Its key goes with its lease, and the other instance opens the sale."""

    name = "opening-kill"
    what = "kill -9 of the leader that is to open the sale, just before the time"

    def fail(self, context: ScenarioContext, leader: Shop) -> None:
        leader.instance.kill()
        context.announce(f"{leader.name} leads, and is killed {BEFORE_S:g} s before the time")
        context.wait_for_sales(20)
        context.testbed.heal()
        context.announce(f"{leader.name} is started again")


class PauseLeader(Opening):
    """It wakes up when its lease is over, the sale open, and its time long past."""

    name = "opening-pause"
    what = "freeze the leader just before the time, thaw it when others have sold"

    def fail(self, context: ScenarioContext, leader: Shop) -> None:
        leader.instance.pause()
        context.announce(f"{leader.name} leads, and is frozen {BEFORE_S:g} s before the time")
        context.wait_for_sales(20)
        leader.instance.resume()
        context.announce(f"{leader.name} is thawed, and believes that it leads")
        context.wait_for_sales(20)


class CutLeader(Opening):
    """It could still reach Redis, and does not open the sale: without a lease it does not lead."""

    name = "opening-cut"
    what = "cut the leader off from etcd, not from Redis, just before its lease would be renewed"

    def fail(self, context: ScenarioContext, leader: Shop) -> None:
        leader.to_etcd.stall()
        context.announce(f"{leader.name} leads, and hears nothing from etcd any more")
        context.wait_for_sales(20)
        leader.to_etcd.resume()
        context.announce(f"{leader.name} and etcd hear each other again")
        context.wait_for_sales(20)


class LateOpening(Opening):
    """The leader had every right to open the sale when it sent the command, which arrives when others have sold."""

    name = "opening-late"
    what = "cut the leader off when its opening is under way; deliver it when others have sold"

    def fail(self, context: ScenarioContext, leader: Shop) -> None:
        leader.to_redis.trap(OPENER)
        context.wait_for("the opening", lambda: leader.to_redis.held_back(REQUESTS))
        leader.to_redis.stall(REQUESTS)
        leader.to_etcd.stall()
        context.announce(f"{leader.name} has sent the opening and is cut off from the network")
        context.wait_for_sales(20)
        context.settle()
        leader.lines.resume()
        context.announce("the network is back, and delivers the opening")
        context.buyers.go_on()


class OpenedTwice(LateOpening):
    """As one would write it first: the leader opens whatever it finds. What was sold is for sale once more."""

    name = "opening-twice"
    what = "the same without the fence, which has to break: the sale is opened twice"
    settings = {"FLASHSALE_OPENER": "unfenced"}  # noqa: RUF012

    def expected(self, promise: str) -> Expected:
        return Expected.BREAKS

    def review(self, context: ScenarioContext, record: Record, found: Audit) -> None:
        """The verdict says it all."""
