"""The rush as a Locust test: what happens at its events."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import gevent
from locust.runners import MasterRunner, WorkerRunner

from loadtest.ports import is_occupied
from loadtest.results.comparison import NO_RESULT, Comparison
from loadtest.results.record import Record
from loadtest.rush.barrier import BuyerPool
from loadtest.rush.conductor import DEFAULT_GUARDS, Conductor, Plan, Prepare, reset
from loadtest.rush.locust_page import LocustWebExtension
from loadtest.rush.progress import Terminal
from loadtest.shop_client.shops import SaleError, Shops, hosts_of

LOST = "The rush was stopped before its end: no verdict, this machine is too slow or its workers went down."
_PAGE_WAITS_S = 1.0  # for the shop's list of guards
_LOOK_FOR_MASTER_S = 1.0


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
        self._environment: Any = None
        self._trusted: list[str] = []  # hosts configured at the start, not typed into the page's form
        self._conductor: Conductor | None = None
        self._terminal = Terminal()
        self._comparing: gevent.Greenlet | None = None
        self._settled = False  # whether there is a comparison, or a line that says why there is none
        self._complete = False
        self._may_interrupt = False  # whether Locust expects Ctrl-C now: not while it waits for its workers
        self._made_in = os.getpid()
        signal.signal(signal.SIGINT, self._exit)
        os.register_at_fork(after_in_child=lambda: gevent.spawn(self._end_with_master))
        for event in ("init", "test_start", "spawning_complete", "test_stopping", "quit"):
            getattr(events, event).add_listener(getattr(self, f"_on_{event}"))
        events.report_to_master.add_listener(_count_no_users)
        # Locust warns of fast spawning because users usually start at once; ours wait at the barrier.
        logging.getLogger("locust.runners").addFilter(lambda told: "spawn rate is very high" not in told.getMessage())

    def _on_init(self, environment: Any, runner: Any, web_ui: Any, **_: Any) -> None:
        self._environment = environment
        self._terminal.language = environment.parsed_options.language
        gevent.signal_handler(signal.SIGINT, self._interrupt)
        self._may_interrupt = not (isinstance(runner, MasterRunner) and environment.parsed_options.headless)
        self._chosen_guards = environment.parsed_options.guards
        if web_ui or environment.parsed_options.report:  # which have Locust's tables, so the screen need not
            logging.getLogger("locust.stats_logger").setLevel(logging.WARNING)
            self._terminal.is_alone = True
        if not isinstance(runner, WorkerRunner):
            self._trusted = self._require_addresses(environment)
        if not isinstance(runner, MasterRunner):
            self._pool.listen(runner)
        if not isinstance(runner, WorkerRunner):
            self._conductor = Conductor(runner, self._terminal, lambda sale, plan: self.prepare(sale, plan))
            environment.process_exit_code = NO_RESULT if environment.parsed_options.headless else None
        if web_ui and self._conductor:
            port = environment.parsed_options.web_port
            if is_occupied(port):  # Locust itself would print forty lines
                self._give_up(f"Port {port} is in use: stop the Locust that has it, or choose another by --web-port.")
            LocustWebExtension(environment, self._conductor, self._look_for_guards)

    def _exit(self, *_: object) -> NoReturn:
        """Ctrl-C while Locust is still being set up; not by an exception, which is ignored where Python forks."""
        if os.getpid() == self._made_in:
            self._terminal.stopped()
        os._exit(NO_RESULT)

    def _end_with_master(self) -> None:
        """In a worker: end soon after its master; Locust itself may let it look for its master for five minutes.

        Ctrl-C may have ended the master alone: Python forgets a signal that a process gets as it is forked.
        """
        while os.getppid() == self._made_in:
            gevent.sleep(_LOOK_FOR_MASTER_S)
        if self._environment is None:  # it never met its master
            os._exit(NO_RESULT)
        self._environment.runner.quit()

    def _interrupt(self) -> None:
        """Ctrl-C: end Locust's main greenlet.

        Python would raise KeyboardInterrupt in the greenlet that is running, whichever it is, with its traceback.
        """
        is_expected, self._may_interrupt = self._may_interrupt, False
        if not is_expected:
            self._terminal.stopped()
        gevent.get_hub().parent.throw(KeyboardInterrupt() if is_expected else SystemExit(NO_RESULT))

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
        self._may_interrupt = True
        if self._conductor:  # a worker has no result
            environment.process_exit_code = NO_RESULT  # until there is one
            self._conductor.reset()
        self._settled = self._complete = False
        self._pool.reset()

    def _on_spawning_complete(self, **_: Any) -> None:
        if self._conductor and not self._comparing:
            # Not the count that comes with the event: with several processes it may be that of the test before.
            buyers = self._environment.runner.target_user_count
            self._comparing = gevent.spawn(self._conduct, self._conductor, buyers)

    def _conduct(self, conductor: Conductor, buyers: int) -> None:
        environment = self._environment
        try:
            comparison = conductor.compare(self._plan(), buyers)
        except SaleError as error:
            self._settled = True
            conductor.notice = str(error)
            if not conductor.verdicts:  # or Locust's empty tables would come after it
                logging.getLogger("locust.stats_logger").setLevel(logging.WARNING)
            self._terminal.fail(conductor.notice)
        else:
            self._settled = self._complete = True
            environment.process_exit_code = comparison.exit_code
            if environment.parsed_options.report:
                self._keep(comparison, conductor.records, Path(environment.parsed_options.report))
        finally:
            if self._comparing is gevent.getcurrent():  # or else the stop of the test ended it
                end = environment.runner.quit if environment.parsed_options.headless else environment.runner.stop
                end()

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
        asked = options.guards, options.stock, options.hold_ms, hosts_of(buyer.host)
        return Plan(*asked, trusted=self._trusted)

    def _on_test_stopping(self, environment: Any, **_: Any) -> None:
        # Not test_stop: a distributed test fires that up to a second after its page has offered to start the next one.
        is_cut_short = self._comparing is not None and self._comparing is not gevent.getcurrent()
        if self._comparing is not None and is_cut_short:
            self._comparing.kill(block=False)
        self._comparing = None
        if is_cut_short and environment.parsed_options.headless and self._may_interrupt:
            self._terminal.fail(LOST)  # Locust takes silent workers for dead, stops, and would wait for ever
            self._settled = True
            gevent.spawn(environment.runner.quit)
        if self._conductor and not self._settled and not self._conductor.verdicts:
            self._terminal.stopped()
        if not environment.parsed_options.headless:
            self._show()

    def _on_quit(self, exit_code: int, **_: Any) -> None:
        if self._environment.parsed_options.headless:
            self._show()

    def _show(self) -> None:
        """Show the comparison as the last thing on the screen."""
        if self._conductor and self._conductor.comparison and self._conductor.verdicts:
            self._terminal.show(self._conductor.comparison, complete=self._complete)


def _count_no_users(data: dict[str, Any], **_: Any) -> None:
    """A worker that is stopped before it met its master reports too. Later Locust's own count replaces this one."""
    data.update(user_classes_count={}, user_count=0)
