"""One trial of a scenario: a whole sale with the fault in the middle, from the reset to the audit.

Where the fault came at the wrong moment there is another sale, and only the last one is judged.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Protocol

from loadtest.faults.buyers import HOLD_MS, Buyers
from loadtest.faults.context import MistimedFault, ScenarioContext
from loadtest.faults.monitor import Monitor
from loadtest.faults.result import TrialResult, problems
from loadtest.faults.scenario import Scenario
from loadtest.faults.snapshot import Snapshot
from loadtest.faults.testbed.protocols import SALE, Testbed
from loadtest.results.audit import audit
from loadtest.results.clock import Start, utc_now
from loadtest.results.comparison import Run
from loadtest.results.record import Expectation, Record
from loadtest.results.section_reader import SectionReader
from loadtest.results.verdict import judge
from loadtest.target.sale import COMPOSE_TOKEN, Sale

STOCK = 300
SALE_TIMEOUT_S = 30.0
MOST_PLAYS = 3


class Screen(Protocol):
    """Who is shown a trial."""

    def look(self, seen: Snapshot) -> None:
        """What the sale looks like at this moment."""

    def event(self, text: str, at_ms: float) -> None:
        """What was done to it, in milliseconds from its beginning."""


class Trial:
    """A scenario under one guard, in a testbed where all is well, with `stock` items to sell."""

    def __init__(self, scenario: Scenario, guard: str, testbed: Testbed, screen: Screen, *, stock: int = STOCK) -> None:
        self._stock = stock
        self._scenario = scenario
        self._guard = guard
        self._testbed = testbed
        self._screen = screen
        urls = [shop.url for shop in testbed.shops]
        etcd = testbed.etcd.members[0].endpoint
        self._sale = Sale(urls, redis_url=testbed.redis.url, etcd=etcd, name=SALE, admin_token=COMPOSE_TOKEN)
        self._promise = self._sale.promises()[guard]
        self._versions = self._sale.versions()

    def run(self) -> tuple[TrialResult, Record]:
        """Play it, again where the fault was untimely; raises SaleError or ServerError where the stack cannot go on."""
        for plays_left in reversed(range(MOST_PLAYS)):
            context, record = self._play()
            result = self._judge(context, record)
            if not isinstance(context.error, MistimedFault) or not plays_left:
                break
            self._screen.event(f"{context.error}: once more", context.start.elapsed_ms())
        return result, record

    def _play(self) -> tuple[ScenarioContext, Record]:
        self._sale.reset(self._stock)
        start, started = Start.now(), utc_now()
        buyers = Buyers(self._testbed.shops, self._guard)
        with Monitor(self._testbed, start, self._stock, self._screen.look) as monitor:
            context = ScenarioContext(
                testbed=self._testbed,
                guard=self._guard,
                exact=self._promise == "exact",
                buyers=buyers,
                monitor=monitor,
                section_log=SectionReader(self._testbed.section_log),
                start=start,
                show=self._screen.event,
            )
            try:
                self._sell(context)
            finally:
                buyers.close()
            record = self._record(context, started, monitor)
        return context, record

    def _sell(self, context: ScenarioContext) -> None:
        """The sale, from the first click to the last doubt."""
        context.buyers.start()
        with context.noting_errors():
            self._scenario.play(context)
        self._testbed.heal()
        context.buyers.hurry()
        sold_out = context.buyers.finish(timeout=SALE_TIMEOUT_S)
        context.require(sold_out, f"the sale was not over {SALE_TIMEOUT_S:g} s after the fault")
        for buyer in context.buyers.doubtful():
            context.buyers.buy(buyer, shop=0)

    def _record(self, context: ScenarioContext, started: str, monitor: Monitor) -> Record:
        ledger, stock_left = self._sale.ledger()
        last = list({answer.buyer: answer for answer in context.buyers.answers}.values())
        self._verdict = judge(stock=self._stock, stock_left=stock_left, ledger=ledger, answers=last)
        run = Run.of(self._guard, self._promise, self._verdict, stock_left=stock_left, answers=last)
        record = Record(
            kind="fault",
            scenario=self._scenario.name,
            guard=self._guard,
            promise=self._promise,
            stock=self._stock,
            buyers=len(last),
            hold_ms=HOLD_MS,
            started=started,
            versions=self._versions,
            verdict=asdict(run),
            samples=monitor.samples,
            events=context.events,
        )
        record.take(context.start, answers=context.buyers.answers, ledger=ledger, sections=context.section_log.poll())
        return record

    def _judge(self, context: ScenarioContext, record: Record) -> TrialResult:
        found = audit(record)
        if context.error is None:
            with context.noting_errors():
                self._scenario.review(context, record, found)
        expected = self._scenario.expected(self._promise)
        result = TrialResult(
            scenario=self._scenario.name,
            guard=self._guard,
            expected=expected,
            observed=self._verdict.sentence,
            sold=found.sold,
            stock_left=found.stock_left,
            stock=self._stock,
            lost_updates=found.lost_updates,
            stall_s=found.longest_stall_ms / 1000,
            problems=[*context.failures, *problems(expected, self._verdict, found)],
        )
        record.expectation = Expectation(
            expected.value, result.as_expected, list(result.problems), fault=self._scenario.what
        )
        return result
