"""One trial of a scenario: a whole sale with the fault in the middle, from the reset to the audit.

If the fault came at the wrong moment there is another sale, and only the last one is judged.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass, replace

from app.contract.verdict import FINDINGS, Kind
from labs.faults.buyers import HOLD_MS
from labs.faults.context import ScenarioContext, TrialListener
from labs.faults.judgement import judge_trial, no_verdict
from labs.faults.scenario import Scenario
from labs.faults.testbed import SALE, Testbed
from labs.faults.threads import MistimedFault
from loadtest.language import Message
from loadtest.results.answer import last_answers
from loadtest.results.audit import Audit, audit
from loadtest.results.comparison import GuardRun
from loadtest.results.history import SLACK_MS
from loadtest.results.record import Expectation, Record
from loadtest.shop_client.sale import COMPOSE_TOKEN, SaleClient
from loadtest.shop_client.shops import SaleError

STOCK = 300
END_TIMEOUT_S = 60.0  # for the last purchase, once the fault is over
SETTLE_TIMEOUT_S = 20.0
MOST_PLAYS = 3
NO_VERDICT = {"kind": Kind.NONE, "exact": False, "kept_promise": None}


@dataclass(frozen=True)
class Trial:
    """A scenario under one guard, in a testbed where all is well, with `stock` items to sell."""

    scenario: Scenario
    guard: str
    testbed: Testbed
    listener: TrialListener
    stock: int = STOCK

    def run(self) -> Record:
        """Play it, again if the fault was untimely; raises SaleError or ServerError if the stack cannot go on."""
        urls = [shop.url for shop in self.testbed.shops]
        etcd = self.testbed.etcd.members[0].endpoint
        redis_url = self.testbed.redis.url
        with closing(SaleClient(urls, redis_url=redis_url, etcd=etcd, name=SALE, admin_token=COMPOSE_TOKEN)) as sale:
            promise = sale.shops.promises()[self.guard]
            for plays_left in reversed(range(MOST_PLAYS)):
                self.scenario.begin(sale, self.stock)
                context = ScenarioContext(self.testbed, self.guard, self.listener)
                has_ended = self._play(context, sale)
                record = self._judge(context, sale, promise, has_ended=has_ended)
                if not isinstance(context.error, MistimedFault) or not plays_left:
                    break
                again = Message.of("{why}: once more", why=context.error.reason)
                self.listener.on_event(again, context.start.elapsed_ms())
        return record

    def _play(self, context: ScenarioContext, sale: SaleClient) -> bool:
        """The sale, from the first click to the last doubt; whether all of its purchases have ended by themselves."""
        with context.monitor:
            try:
                context.buyers.start()
                with context.noting_delays():
                    self.scenario.await_start(context)
                    self.scenario.play(context)
                self.testbed.heal()
                context.buyers.drain()
                has_ended = self._wait_for_the_end(context, sale)
            finally:
                context.buyers.close()
            if not has_ended:  # what is still under way would write into this ledger later, or buy in the next sale
                self.testbed.restart_shops()
                context.buyers.wait_ended(timeout=END_TIMEOUT_S)
        return has_ended

    def _wait_for_the_end(self, context: ScenarioContext, sale: SaleClient) -> bool:
        """Wait until every purchase has ended and every buyer knows of it: a sale that goes on cannot be judged."""
        over = Message.of("{s} s after the fault", s=f"{END_TIMEOUT_S:g}")
        if not context.buyers.wait_ended(timeout=END_TIMEOUT_S):
            context.delays.append(Message.of("the sale was not over {then}", then=over))
            return False
        try:
            for _ in sale.shops.until_idle(timeout=END_TIMEOUT_S):
                pass
        except SaleError as error:
            context.delays.append(Message.verbatim(error.message))
            return False
        if doubtful := context.buyers.settle_doubts(timeout=SETTLE_TIMEOUT_S):
            buyers = Message.of("{n} buyer|{n} buyers", n=len(doubtful))
            context.delays.append(Message.of("{buyers} in doubt {then}", buyers=buyers, then=over))
        return not doubtful

    def _judge(self, context: ScenarioContext, sale: SaleClient, promise: str, *, has_ended: bool) -> Record:
        ledger, stock_left = sale.ledger()
        answers, sections = list(context.buyers.answers), context.section_log.poll()
        last, slack_ms = last_answers(answers), SLACK_MS + context.start.drift_ms()
        verdict = Audit(self.stock, stock_left, ledger, answers, slack_ms=slack_ms).verdict()
        run = GuardRun.of(self.guard, promise, verdict, stock_left=stock_left, answers=last)
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
            verdict=asdict(run),
            samples=context.monitor.samples,
            events=context.events,
            source=context.section_log.source(self.guard),
            slack_ms=slack_ms,
        )
        record.take(context.start, answers=answers, ledger=ledger, sections=sections)
        if has_ended and context.error is None:
            with context.noting_delays():
                self.scenario.review(context, record)
        expected = self.scenario.expected(self.guard)
        if errors := context.threads.errors:
            expectation = Expectation(expected.value, False, errors)
        elif not has_ended:
            expectation = no_verdict(expected, context.delays)
        else:
            required = {"failures": context.failures, "delays": context.delays}
            expectation = judge_trial(expected, promise, verdict, audit(record), **required)
        if expectation.as_expected is None:
            record.verdict |= {"verdict": FINDINGS["too_slow"], "findings": {"too_slow": 0}, **NO_VERDICT}
        record.expectation = replace(expectation, fault=self.scenario.summary)
        return record
