"""The rush, as Locust's master conducts it: a round for each guard, then the comparison.

A round: wait until the shops are idle, let the buyers come to the barrier, reset the stock, open the barrier, wait for
every answer, read the ledger, judge.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gevent
from gevent import Timeout
from gevent.event import Event

from app.contract.clock import Start, utc_now
from app.contract.outcomes import Outcome, Promise
from loadtest.results.answer import Answer
from loadtest.results.audit import Audit
from loadtest.results.comparison import Comparison, GuardRun
from loadtest.results.history import SEVERAL_MACHINES_MS, SLACK_MS
from loadtest.results.machine import about_machine
from loadtest.results.record import Record, Sample, SectionReader
from loadtest.results.text import pluralize
from loadtest.rush.progress import Terminal
from loadtest.shop_client.sale import SaleClient
from loadtest.shop_client.shops import SaleError

DEFAULT_GUARDS = ["none", "etcd"]
ARRIVAL_TIMEOUT_S = 30.0
LOOK_S = 0.2  # not less: looking takes time from the buyers, which may be in this process
CLICK_TIMEOUT_S = 60.0  # of a buyer; an answer that is later went down with its Locust worker
TOO_SLOW = ": no verdict, this machine is too slow."
LOST_AFTER_S = 15  # without a heartbeat, a Locust worker is down; on a busy machine it may be late by some seconds
ANSWERS_TIMEOUT_S = 2 * CLICK_TIMEOUT_S + 10.0  # from the opening; twice: a buyer may be told to click again


@dataclass(frozen=True)
class Plan:
    """What to compare; only `trusted` hosts may be told the admin token."""

    guards: Sequence[str]
    stock: int
    hold_ms: int
    hosts: Sequence[str]
    trusted: Sequence[str]


def reset(sale: SaleClient, plan: Plan) -> float:
    """Open the sale of a round; when it begins, in seconds since the epoch, 0.0 for at once. Raises SaleError."""
    sale.reset(plan.stock)
    return 0.0


Prepare = Callable[[SaleClient, Plan], float]


class Conductor:
    """Conducts the rounds of a test. `runner` is Locust's local or master runner, `prepare` opens each sale.

    Attributes:
        comparison: that of the last test, or of the running one as far as it is.
        records: one for each of its runs.
        notice: one line: what the rush waits for, or why there is no comparison.
    """

    def __init__(self, runner: Any, terminal: Terminal, prepare: Prepare = reset) -> None:
        self._runner = runner
        self._terminal = terminal
        self._prepare = prepare
        self.comparison: Comparison | None = None
        self.records: list[Record] = []
        self.notice = ""
        self._number = 0
        self._workers: dict[str, str] = {}  # the Locust worker of each buyer at the barrier
        self._answers: list[Answer] = []
        self._changed = Event()
        runner.register_message("arrived", self._on_arrived)
        runner.register_message("answers", self._on_answers)

    @property
    def verdicts(self) -> list[GuardRun]:
        return self.comparison.runs if self.comparison else []

    @property
    def arrived(self) -> int:
        """How many buyers have come to the barrier of the last round."""
        return len(self._workers)

    def reset(self) -> None:
        self.comparison, self.records, self.notice, self._workers = None, [], "", {}

    def compare(self, plan: Plan, buyers: int) -> Comparison:
        """Run all rounds with `buyers` buyers, after `reset`; raises SaleError."""
        if buyers < 1:
            raise SaleError("There are no buyers: give --users a number from 1.")
        sale = SaleClient.from_environment(plan.hosts, trusted=plan.trusted)
        promises = sale.shops.require_guards(plan.guards)
        self.comparison = Comparison(plan.stock, buyers, utc_now(), sale.versions(), [], plan.hold_ms, about_machine())
        self._terminal.begins(self.comparison, plan.guards)
        for guard in plan.guards:
            self.comparison.runs.append(self._round(sale, plan, guard, promises[guard], buyers))
            self._terminal.round_ends()
        return self.comparison

    def _round(self, sale: SaleClient, plan: Plan, guard: str, promise: str, buyers: int) -> GuardRun:
        self._let_all_end(sale)
        self._terminal.round_begins(guard)
        self._assemble(guard, plan.hold_ms, buyers)
        starts_at = self._prepare(sale, plan)
        start, started = Start.now(), utc_now()
        section_log = SectionReader.from_environment(start)
        samples: list[Sample] = []
        instances = sale.shops.instances()
        monitor = gevent.spawn(self._observe, sale, start, samples)
        try:
            answers = self._burst(buyers, starts_at)
            if any(answer.in_doubt for answer in answers):
                self._let_all_end(sale, ignore_dead=True)
        finally:
            monitor.kill()
        ledger, stock_left = sale.ledger()
        sections, slack_ms = section_log.poll(), self._slack_ms() + start.drift_ms()
        fenced = sections if promise == Promise.EXACT else ()
        audit = Audit(plan.stock, stock_left, ledger, answers, fenced, slack_ms)
        verdict = audit.verdict(went=len(instances.items() - sale.shops.instances().items()))
        run = GuardRun.of(guard, promise, verdict, stock_left=stock_left, answers=answers)
        record = Record.of_rush(run, stock=plan.stock, hold_ms=plan.hold_ms, started=started, versions=sale.versions())
        record.take(start, answers=answers, ledger=ledger, sections=sections)
        record.samples, record.source, record.slack_ms = samples, section_log.source(guard), slack_ms
        self.records.append(record)
        return run

    def _let_all_end(self, sale: SaleClient, *, ignore_dead: bool = False) -> None:
        """Wait for purchases under way.

        Those of a rush that was stopped would sell from this round's stock; those whose buyers no longer wait may still
        write an order.
        """
        try:
            for purchases in sale.shops.until_idle(ignore_dead=ignore_dead):
                is_first = not self.notice
                self.notice = f"Waiting for {pluralize(purchases, 'purchase')} under way."
                if is_first:
                    self._terminal.waits(self.notice)
        finally:
            self.notice = ""

    def _assemble(self, guard: str, hold_ms: int, buyers: int) -> None:
        """Have every buyer connect and come to the barrier."""
        self._number, self._workers, self._answers = self._number + 1, {}, []
        self._runner.send_message("round", {"number": self._number, "guard": guard, "hold_ms": hold_ms})
        if not self._wait(lambda: len(self._workers) >= buyers, ARRIVAL_TIMEOUT_S):
            came = len(self._workers)
            raise SaleError(
                f"Only {came} of {pluralize(buyers, 'buyer')} came within {ARRIVAL_TIMEOUT_S:g} s{TOO_SLOW}"
            )

    def _burst(self, buyers: int, starts_at: float) -> list[Answer]:
        """One click of every buyer, all at once, and its answer."""
        sent = time.time()
        timeout = max(starts_at - sent, 0.0) + ANSWERS_TIMEOUT_S
        self._runner.send_message("open", {"starts_at": starts_at})
        if not self._wait(lambda: len(self._answers) + len(self._lost()) >= buyers, timeout):
            raise SaleError(
                f"Only {len(self._answers)} of {pluralize(buyers, 'answer')} came within {timeout:.0f} s{TOO_SLOW}"
            )
        for buyer in self._lost():
            self._answers.append(Answer.read(buyer, "lost worker", 0, None, sent=sent, received=time.time()))
        for answer in self._answers:
            if answer.status == 400:
                raise SaleError(f"{answer.instance} refused a purchase: {answer.detail}")
        return self._answers

    def _observe(self, sale: SaleClient, start: Start, samples: list[Sample]) -> None:
        while True:
            gevent.sleep(LOOK_S)
            samples.append(sale.sample(start.elapsed_ms()))
            self._terminal.observed(samples[-1])

    def _lost(self) -> set[str]:
        """Buyers without an answer whose Locust worker went down; their purchases are in doubt."""
        workers = getattr(self._runner, "clients", None)
        if workers is None:  # the buyers are in this process
            return set()
        living = {worker for worker, state in workers.items() if state.heartbeat > -LOST_AFTER_S}
        waited_for = self._workers.keys() - {answer.buyer for answer in self._answers}
        return {buyer for buyer in waited_for if self._workers[buyer] not in living}

    def _slack_ms(self) -> float:
        """By how much the buyers' clocks may differ; Locust's name of a worker begins with its machine's."""
        machines = {worker.rpartition("_")[0] for worker in self._workers.values()}
        return SLACK_MS if len(machines) < 2 else SEVERAL_MACHINES_MS

    def _wait(self, happened: Callable[[], bool], timeout: float) -> bool:
        with Timeout(timeout, False):
            while not happened():
                self._changed.clear()
                self._changed.wait(1.0)  # a worker goes down without a message
        return happened()

    def _on_arrived(self, environment: Any, msg: Any, **_: Any) -> None:
        if msg.data["number"] == self._number:
            self._workers |= dict.fromkeys(msg.data["buyers"], msg.node_id)
            self._changed.set()

    def _on_answers(self, environment: Any, msg: Any, **_: Any) -> None:
        if msg.data["number"] == self._number:
            self._answers += [Answer(row[0], Outcome(row[1]), *row[2:]) for row in msg.data["answers"]]
            self._changed.set()
