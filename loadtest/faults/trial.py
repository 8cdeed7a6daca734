"""One performance of a scenario: a whole sale with the fault in the middle, from the reset to the audit.

Where the fault came at the wrong moment there is another sale, and only the last one is judged.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Protocol

from loadtest.faults.buyers import HOLD_MS, Buyers
from loadtest.faults.context import Act, Untimely
from loadtest.faults.monitor import Lookout
from loadtest.faults.result import Result, problems
from loadtest.faults.scenario import Scenario
from loadtest.faults.snapshot import Glance
from loadtest.faults.testbed.protocols import SALE, Arena
from loadtest.results.audit import audit
from loadtest.results.clock import Start, utc_now
from loadtest.results.comparison import Run
from loadtest.results.record import Record
from loadtest.results.section_reader import SectionReader
from loadtest.results.verdict import judge
from loadtest.target.sale import COMPOSE_TOKEN, Sale

STOCK = 300
SALE_TIMEOUT_S = 30.0
MOST_PLAYS = 3


class Screen(Protocol):
    """Who is shown a performance."""

    def look(self, seen: Glance) -> None:
        """What the sale looks like at this moment."""

    def event(self, text: str, at_ms: float) -> None:
        """What was done to it, in milliseconds from its beginning."""


class Performance:
    """A scenario under one guard, in an arena where all is well, with `stock` items to sell."""

    def __init__(self, scenario: Scenario, guard: str, arena: Arena, screen: Screen, *, stock: int = STOCK) -> None:
        self._stock = stock
        self._scenario = scenario
        self._guard = guard
        self._arena = arena
        self._screen = screen
        urls = [shop.url for shop in arena.shops]
        etcd = arena.etcd.members[0].endpoint
        self._sale = Sale(urls, redis_url=arena.redis.url, etcd=etcd, name=SALE, admin_token=COMPOSE_TOKEN)
        self._promise = self._sale.promises()[guard]
        self._versions = self._sale.versions()

    def run(self) -> tuple[Result, Record]:
        """Play it, again where the fault was untimely; raises SaleError or ServerError where the stack cannot go on."""
        for plays_left in reversed(range(MOST_PLAYS)):
            act, record = self._play()
            result = self._judge(act, record)
            if not isinstance(act.missed, Untimely) or not plays_left:
                break
            self._screen.event(f"{act.missed}: once more", act.start.elapsed_ms())
        return result, record

    def _play(self) -> tuple[Act, Record]:
        self._sale.reset(self._stock)
        start, started = Start.now(), utc_now()
        buyers = Buyers(self._arena.shops, self._guard)
        with Lookout(self._arena, start, self._stock, self._screen.look) as lookout:
            act = Act(
                arena=self._arena,
                guard=self._guard,
                exact=self._promise == "exact",
                buyers=buyers,
                lookout=lookout,
                section_log=SectionReader(self._arena.section_log),
                start=start,
                show=self._screen.event,
            )
            try:
                self._sell(act)
            finally:
                buyers.close()
            record = self._record(act, started, lookout)
        return act, record

    def _sell(self, act: Act) -> None:
        """The sale, from the first click to the last doubt."""
        act.buyers.start()
        with act.noting_misses():
            self._scenario.play(act)
        self._arena.heal()
        act.buyers.hurry()
        sold_out = act.buyers.finish(timeout=SALE_TIMEOUT_S)
        act.insist(sold_out, f"the sale was not over {SALE_TIMEOUT_S:g} s after the fault")
        for buyer in act.buyers.doubtful():
            act.buyers.buy(buyer, shop=0)

    def _record(self, act: Act, started: str, lookout: Lookout) -> Record:
        ledger, stock_left = self._sale.ledger()
        last = list({answer.buyer: answer for answer in act.buyers.answers}.values())
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
            samples=lookout.samples,
            events=act.events,
        )
        record.take(act.start, answers=act.buyers.answers, ledger=ledger, visits=act.section_log.poll())
        return record

    def _judge(self, act: Act, record: Record) -> Result:
        found = audit(record)
        if act.missed is None:
            with act.noting_misses():
                self._scenario.review(act, record, found)
        expected = self._scenario.expected(self._promise)
        result = Result(
            scenario=self._scenario.name,
            guard=self._guard,
            expected=expected,
            observed=self._verdict.sentence,
            sold=found.sold,
            stock_left=found.stock_left,
            stock=self._stock,
            lost_updates=found.lost_updates,
            stall_s=found.longest_stall_ms / 1000,
            problems=[*act.failures, *problems(expected, self._verdict, found)],
        )
        record.expectation = {
            "expected": expected.value,
            "as_expected": result.as_expected,
            "problems": list(result.problems),
        }
        return result
