"""One trial of a scenario: a whole sale with the fault in the middle, from the reset to the audit.

Where the fault came at the wrong moment there is another sale, and only the last one is judged.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass

from app.contract.verdict import Verdict
from labs.faults.buyers import HOLD_MS
from labs.faults.context import SOME, ScenarioContext, TrialListener
from labs.faults.scenario import Expected, Scenario
from labs.faults.shops import SALE
from labs.faults.testbed import Testbed
from labs.faults.threads import MistimedFault
from loadtest.results.audit import Audit, audit
from loadtest.results.comparison import Run
from loadtest.results.record import Expectation, Record
from loadtest.results.text import pluralize
from loadtest.results.verdict import judge_rush
from loadtest.shop_client.sale import COMPOSE_TOKEN, Sale

STOCK = 300
SALE_TIMEOUT_S = 30.0
MOST_PLAYS = 3
EXACT = "EXACT"
BREAKS_NOT = "it did not break: the scenario proves nothing"


@dataclass(frozen=True)
class TrialResult:
    """What came of a scenario under one guard: a row of the table.

    Attributes:
        observed: the verdict's sentence.
        problems: why it is not as expected; empty if it is.
    """

    scenario: str
    guard: str
    expected: Expected
    observed: str
    problems: list[str]
    found: Audit

    @property
    def as_expected(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class Trial:
    """A scenario under one guard, in a testbed where all is well, with `stock` items to sell."""

    scenario: Scenario
    guard: str
    testbed: Testbed
    listener: TrialListener
    stock: int = STOCK

    def run(self) -> tuple[TrialResult, Record]:
        """Play it, again where the fault was untimely; raises SaleError or ServerError where the stack cannot go on."""
        urls = [shop.url for shop in self.testbed.shops]
        etcd = self.testbed.etcd.members[0].endpoint
        redis_url = self.testbed.redis.url
        with closing(Sale(urls, redis_url=redis_url, etcd=etcd, name=SALE, admin_token=COMPOSE_TOKEN)) as sale:
            promise = sale.shops.promises()[self.guard]
            for plays_left in reversed(range(MOST_PLAYS)):
                context = self._play(sale, promise)
                result, record = self._judge(context, sale, promise)
                if not isinstance(context.error, MistimedFault) or not plays_left:
                    break
                self.listener.event(f"{context.error}: once more", context.start.elapsed_ms())
        return result, record

    def _play(self, sale: Sale, promise: str) -> ScenarioContext:
        self.scenario.begin(sale, self.stock)
        context = ScenarioContext(self.testbed, self.guard, self.listener, exact=promise == "exact", stock=self.stock)
        with context.monitor:
            try:
                self._sell(context)
            finally:
                context.buyers.close()
        return context

    def _sell(self, context: ScenarioContext) -> None:
        """The sale, from the first click to the last doubt."""
        context.buyers.start()
        with context.noting_errors():
            if not self.scenario.opens_in_s:
                context.wait_for("the beginning of the sale", lambda: context.monitor.orders >= SOME)
            self.scenario.play(context)
        self.testbed.heal()
        context.buyers.hurry()
        sold_out = context.buyers.finish(timeout=SALE_TIMEOUT_S)
        context.require(sold_out, f"the sale was not over {SALE_TIMEOUT_S:g} s after the fault")
        for buyer in context.buyers.doubtful():
            context.buyers.buy(buyer, shop=0)
        context.failures += [error for error in context.threads.errors if error not in context.failures]

    def _judge(self, context: ScenarioContext, sale: Sale, promise: str) -> tuple[TrialResult, Record]:
        ledger, stock_left = sale.ledger()
        last = list({answer.buyer: answer for answer in context.buyers.answers}.values())
        opens_at = self.scenario.opens_at
        verdict = judge_rush(stock=self.stock, stock_left=stock_left, ledger=ledger, answers=last, opens_at=opens_at)
        record = Record(
            kind="fault",
            scenario=self.scenario.name,
            guard=self.guard,
            promise=promise,
            stock=self.stock,
            buyers=len(last),
            hold_ms=HOLD_MS,
            started=context.started,
            versions=sale.versions(),
            verdict=asdict(Run.of(self.guard, promise, verdict, stock_left=stock_left, answers=last)),
            samples=context.monitor.samples,
            events=context.events,
            source=context.section_log.source(self.guard),
        )
        record.take(context.start, answers=context.buyers.answers, ledger=ledger, sections=context.section_log.poll())
        found = audit(record)
        if context.error is None:
            with context.noting_errors():
                self.scenario.review(context, record)
        expected = self.scenario.fenced if context.exact else self.scenario.unfenced
        against = [*context.failures, *problems(expected, verdict, found)]
        record.expectation = Expectation(expected.value, not against, against, fault=self.scenario.what)
        return TrialResult(self.scenario.name, self.guard, expected, verdict.sentence, against, found), record


def problems(expected: Expected, verdict: Verdict, found: Audit) -> list[str]:
    """What speaks against a run, by its verdict and by what the audit found."""
    if expected is Expected.EXACT:
        sentence = [] if verdict.exact else [verdict.sentence]
        return sentence + found.findings()
    broke = verdict.oversold or verdict.lost_updates or verdict.missing
    unanswered = [f"{pluralize(len(found.unanswered), 'buyer')} without an answer"] if found.unanswered else []
    return unanswered + ([BREAKS_NOT] if expected is Expected.BREAKS and not broke else [])
