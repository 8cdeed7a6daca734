"""The rush as a Locust test: what happens at its events."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn

import gevent
from locust.runners import MasterRunner, WorkerRunner

from loadtest.ports import is_occupied
from loadtest.results.comparison import NO_RESULT, Comparison
from loadtest.results.record import Record
from loadtest.rush.barrier import BuyerPool
from loadtest.rush.conductor import DEFAULT_GUARDS, Conductor, Plan, Prepare, reset
from loadtest.rush.interrupts import Interrupts
from loadtest.rush.locust_page import LocustWebExtension
from loadtest.rush.progress import Terminal
from loadtest.shop_client.shops import SaleError, Shops, hosts_of

LOST = "The rush was stopped before its end: no verdict, this machine is too slow or its workers went down."
_PAGE_WAITS_S = 1.0  # for the shop's list of guards


class State(Enum):
    """The states of a Locust test, each of which is one rush."""

    WAITING = "waiting"  # for its buyers
    COMPARING = "comparing"
    SETTLED = "settled"  # there is a comparison
    FAILED = "failed"  # there is none, and the screen says why
    STOPPED = "stopped"  # before it was settled


class LocustHooks:
    """Runs the comparison as one Locust test, any number of times.

    A test that is stopped or interrupted before its comparison is complete has exit code 2.

    Attributes:
        offered_guards: names that the page's form offers; None for the command line, which takes any.
        prepare: opens the sale of a round; a locustfile that builds on this one may replace it before a test starts.
    """

    def __init__(self, events: Any, buyer_pool: BuyerPool) -> None:
        self._pool = buyer_pool
        self.offered_guards: list[str] | None = None
        self.prepare: Prepare = reset
        self._chosen_guards: list[str] = []  # on the command line
        self._trusted: list[str] = []  # hosts configured at the start, not typed into the page's form
        self._environment: Any = None
        self._conductor: Conductor | None = None
        self._terminal = Terminal()
        self._interrupts = Interrupts(self._terminal)
        self._state = State.WAITING
        self._comparing: gevent.Greenlet | None = None
        for event in ("init", "test_start", "spawning_complete", "test_stopping", "quit"):
            getattr(events, event).add_listener(getattr(self, f"_on_{event}"))
        events.report_to_master.add_listener(_count_no_users)
        # Locust warns of fast spawning because users usually start at once; ours wait at the barrier.
        logging.getLogger("locust.runners").addFilter(lambda told: "spawn rate is very high" not in told.getMessage())

    def _on_init(self, environment: Any, runner: Any, web_ui: Any, **_: Any) -> None:
        self._environment = environment
        options = environment.parsed_options
        self._terminal.language = options.language
        self._interrupts.listen(environment, expected=not (isinstance(runner, MasterRunner) and options.headless))
        if web_ui or options.report:  # which have Locust's tables, so the screen need not
            logging.getLogger("locust.stats_logger").setLevel(logging.WARNING)
            self._terminal.is_alone = True
        if not isinstance(runner, MasterRunner):
            self._pool.listen(runner)
        if not isinstance(runner, WorkerRunner):
            self._chosen_guards, self._trusted = options.guards, self._require_addresses(environment)
            self._conductor = Conductor(runner, self._terminal, lambda sale, plan: self.prepare(sale, plan))
            environment.process_exit_code = NO_RESULT if options.headless else None
        if web_ui and self._conductor:
            if is_occupied(port := options.web_port):  # Locust itself would print forty lines
                self._give_up(f"Port {port} is in use: stop the Locust that has it, or choose another by --web-port.")
            LocustWebExtension(environment, self._conductor, self._look_for_guards)

    def _look_for_guards(self) -> None:
        """Offer the shop's guards; without an answer, the default ones."""
        found = DEFAULT_GUARDS
        with gevent.Timeout(_PAGE_WAITS_S, False), suppress(SaleError):
            found = list(Shops(self._trusted).promises())
        # Locust reads its command line again to make the page.
        self.offered_guards = list(dict.fromkeys([*found, *self._chosen_guards]))

    def _require_addresses(self, environment: Any) -> list[str]:
        """The hosts; Locust itself would print a traceback for each user and never end."""
        (buyer,) = environment.user_classes
        try:
            return hosts_of(environment.host or buyer.host)
        except SaleError as error:
            self._give_up(str(error))

    def _give_up(self, why: str) -> NoReturn:
        self._terminal.fail(why)
        sys.exit(NO_RESULT)

    def _on_test_start(self, environment: Any, **_: Any) -> None:
        self._state, self._interrupts.expected = State.WAITING, True
        if self._conductor:  # a worker has no result
            environment.process_exit_code = NO_RESULT  # until there is one
            self._conductor.reset()
        self._pool.reset()

    def _on_spawning_complete(self, **_: Any) -> None:
        if self._conductor and self._state is State.WAITING:
            # Not the count that comes with the event: with several processes it may be that of the test before.
            buyers = self._environment.runner.target_user_count
            self._state = State.COMPARING
            self._comparing = gevent.spawn(self._conduct, self._conductor, buyers)

    def _conduct(self, conductor: Conductor, buyers: int) -> None:
        try:
            comparison = conductor.compare(self._plan(), buyers)
        except SaleError as error:
            self._fail(conductor, str(error))
        else:
            self._settle(comparison, conductor.records)
        finally:
            if self._comparing is gevent.getcurrent():  # or else the stop of the test ended it
                runner = self._environment.runner
                end = runner.quit if self._is_headless else runner.stop
                end()

    def _fail(self, conductor: Conductor, why: str) -> None:
        self._state = State.FAILED
        conductor.notice = why
        if not conductor.verdicts:  # or Locust's empty tables would come after it
            logging.getLogger("locust.stats_logger").setLevel(logging.WARNING)
        self._terminal.fail(why)

    def _settle(self, comparison: Comparison, records: Iterable[Record]) -> None:
        self._state = State.SETTLED
        self._environment.process_exit_code = comparison.exit_code
        if report := self._environment.parsed_options.report:
            self._keep(comparison, records, Path(report))

    def _keep(self, comparison: Comparison, records: Iterable[Record], report: Path) -> None:
        """Write the records and then `report`, which is never without them."""
        try:
            for record in records:
                record.write(report.parent / "records" / f"{record.guard}.json")
            comparison.write(report)
        except OSError as error:
            self._terminal.fail(f"The report cannot be kept in {report.parent}: {error.strerror}.")
            self._environment.process_exit_code = NO_RESULT

    def _plan(self) -> Plan:
        options = self._environment.parsed_options
        (buyer,) = self._environment.user_classes
        return Plan(options.guards, options.stock, options.hold_ms, hosts_of(buyer.host), self._trusted)

    def _on_test_stopping(self, environment: Any, **_: Any) -> None:
        # Not test_stop: a distributed test fires that up to a second after its page has offered to start the next one.
        comparing, self._comparing = self._comparing, None
        is_cut_short = self._state is State.COMPARING and comparing is not gevent.getcurrent()
        if comparing is not None and is_cut_short:
            comparing.kill(block=False)
        if self._state in (State.WAITING, State.COMPARING):
            self._state = State.STOPPED
            if is_cut_short and self._is_headless and self._interrupts.expected:
                self._terminal.fail(LOST)  # Locust takes silent workers for dead, stops, and would wait for ever
                gevent.spawn(environment.runner.quit)
            elif self._conductor and not self._conductor.verdicts:
                self._terminal.stopped()
        if not self._is_headless:
            self._show()

    def _on_quit(self, exit_code: int, **_: Any) -> None:
        if self._is_headless:
            self._show()

    def _show(self) -> None:
        """Show the comparison as the last thing on the screen."""
        if self._conductor and self._conductor.comparison and self._conductor.verdicts:
            self._terminal.show(self._conductor.comparison, complete=self._state is State.SETTLED)

    @property
    def _is_headless(self) -> bool:
        return bool(self._environment.parsed_options.headless)


def _count_no_users(data: dict[str, Any], **_: Any) -> None:
    """A worker that is stopped before it met its master reports too. Later Locust's own count replaces this one."""
    data.update(user_classes_count={}, user_count=0)
