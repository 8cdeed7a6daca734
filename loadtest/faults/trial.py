"""One trial of a scenario: a whole sale with the fault in the middle, from the reset to the audit.

Where the fault came at the wrong moment there is another sale, and only the last one is judged.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict

from loadtest.faults.buyers import HOLD_MS, Buyers
from loadtest.faults.context import ScenarioContext, TrialListener
from loadtest.faults.monitor import Monitor
from loadtest.faults.result import TrialResult, problems
from loadtest.faults.scenario import Scenario
from loadtest.faults.testbed import Testbed
from loadtest.faults.testbed.shop import SALE
from loadtest.faults.threads import MistimedFault, TrialThreads
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


class Trial:
    """A scenario under one guard, in a testbed where all is well, with `stock` items to sell."""

    def __init__(
        self, scenario: Scenario, guard: str, testbed: Testbed, listener: TrialListener, *, stock: int = STOCK
    ) -> None:
        self._stock = stock
        self._scenario = scenario
        self._guard = guard
        self._testbed = testbed
        self._listener = listener

    def run(self) -> tuple[TrialResult, Record]:
        """Play it, again where the fault was untimely; raises SaleError or ServerError where the stack cannot go on."""
        urls = [shop.url for shop in self._testbed.shops]
        etcd = self._testbed.etcd.members[0].endpoint
        redis_url = self._testbed.redis.url
        with closing(Sale(urls, redis_url=redis_url, etcd=etcd, name=SALE, admin_token=COMPOSE_TOKEN)) as self._sale:
            self._promise = self._sale.promises()[self._guard]
            for plays_left in reversed(range(MOST_PLAYS)):
                context, record = self._play()
                result = self._judge(context, record)
                if not isinstance(context.error, MistimedFault) or not plays_left:
                    break
                self._listener.event(f"{context.error}: once more", context.start.elapsed_ms())
        return result, record

    def _play(self) -> tuple[ScenarioContext, Record]:
        self._scenario.begin(self._sale, self._stock)
        start, started = Start.now(), utc_now()
        threads = TrialThreads()
        buyers = Buyers(self._testbed.shops, self._guard, threads)
        with Monitor(self._testbed, start, self._stock, self._listener.look, threads) as monitor:
            context = ScenarioContext(
                testbed=self._testbed,
                guard=self._guard,
                exact=self._promise == "exact",
                buyers=buyers,
                monitor=monitor,
                section_log=SectionReader(self._testbed.section_log),
                start=start,
                threads=threads,
                listener=self._listener,
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
        context.failures += [error for error in context.threads.errors if error not in context.failures]

    def _record(self, context: ScenarioContext, started: str, monitor: Monitor) -> Record:
        ledger, stock_left = self._sale.ledger()
        last = list({answer.buyer: answer for answer in context.buyers.answers}.values())
        self._verdict = judge(
            stock=self._stock, stock_left=stock_left, ledger=ledger, answers=last, opens_at=self._scenario.opens_at
        )
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
            versions=self._sale.versions(),
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
