"""One scenario under one guard, while it is played: what a scenario can do, wait for and require."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from app.contract.clock import Start, utc_now
from app.guards import guards
from labs.faults.buyers import CLICK_TIMEOUT_S, Buyers
from labs.faults.monitor import Monitor
from labs.faults.testbed import Testbed
from labs.faults.threads import MistimedFault, ScenarioError, TrialThreads
from loadtest.language import Message, Value
from loadtest.results.answer import Answer
from loadtest.results.record import FaultEvent, Sample, SectionReader
from loadtest.shop_client.ledger import UNREADABLE
from loadtest.shop_client.shops import in_progress
from loadtest.stack.process import ServerError
from lock import LockError

VICTIM = "victim"
SOME = 20  # items
READ_S = 0.05  # the read takes a few milliseconds from entering; whether it was over is checked afterwards
POLL_S = 0.01
CALM_S = 0.3
PATIENCE_S = 20.0


class TrialListener:
    """Is told how a trial goes; a subclass overrides what it needs."""

    def on_sample(self, sample: Sample) -> None:
        """The sale at this moment."""

    def on_event(self, what: Message, at_ms: float) -> None:
        """What was done to it, in milliseconds from its beginning."""


class ScenarioContext:
    """What is at hand while a scenario is played: one sale, which begins now."""

    def __init__(self, testbed: Testbed, guard: str, listener: TrialListener) -> None:
        self.testbed = testbed
        self.shops = testbed.shops
        self.guard = guard
        self.locks_in_etcd = guards()[guard].checks_sold_out  # whether each purchase takes a lock in etcd
        self.listener = listener  # is told of every event as it happens
        self.start, self.started = Start.now(), utc_now()
        self.threads = TrialThreads()  # those of this trial
        self.buyers = Buyers(testbed.shops, guard, self.threads)
        self.monitor = Monitor(testbed, self.start, listener.on_sample, self.threads)
        self.section_log = SectionReader(testbed.section_log, self.start)
        self.events: list[FaultEvent] = []
        self.failures: list[Message] = []  # what the scenario required in vain
        self.delays: list[Message] = []  # what did not happen in time
        self.error: Exception | None = None  # why the scenario could not be played as it is meant, if it could not

    def announce(self, text: str, /, **values: Value) -> None:
        """Tell what was done to the sale: a text as `Message` has it, with its values."""
        event = FaultEvent(self.start.elapsed_ms(), text, values)
        self.events.append(event)
        self.listener.on_event(event.message, event.at_ms)

    def act(self, action: Callable[[], object], text: str, /, **values: Value) -> None:
        """Do something to the sale, and tell what was done."""
        action()
        self.announce(text, **values)

    def require(self, kept: bool, text: str, /, **values: Value) -> None:
        """The run is not as expected unless `kept`; `text` says what was wrong."""
        if not kept:
            self.failures.append(Message(text, values))

    def require_in_time(self, kept: bool, text: str, /, **values: Value) -> None:
        """There is no verdict unless `kept`: a slow machine would fail this as well as a wrong guard."""
        if not kept:
            self.delays.append(Message(text, values))

    @contextmanager
    def noting_delays(self) -> Iterator[None]:
        """Record as a delay of the run that it could not be played as it is meant, and go on."""
        try:
            yield
        except (ScenarioError, ServerError, LockError, OSError, *UNREADABLE) as error:
            self.delays.append(error.reason if isinstance(error, ScenarioError) else Message.verbatim(str(error)))
            self.error = error

    def wait_for(self, what: Message | str, happened: Callable[[], object], *, timeout: float = PATIENCE_S) -> None:
        """Wait until `happened()`; raises ScenarioError."""
        deadline = time.monotonic() + timeout
        while not happened():
            self.threads.check()
            if time.monotonic() > deadline:
                what = Message(what) if isinstance(what, str) else what
                raise ScenarioError("{what} did not happen within {s} s", what=what, s=f"{timeout:g}")
            time.sleep(POLL_S)

    def wait_for_sales(self) -> None:
        """Wait until some more items are sold; raises ScenarioError."""
        goal = self.monitor.orders + SOME
        self.wait_for(Message.of("the sale of {n} more items", n=SOME), lambda: self.monitor.orders >= goal)

    def start_holder(self, shop: int, *, think_ms: int, timeout: float = CLICK_TIMEOUT_S) -> Future[Answer]:
        """Have a buyer think for `think_ms` inside the critical section of a shop; returns when the stock is read.

        The buyer asks elsewhere if the shop hangs up, with the same idempotency key. It comes when all others have been
        served, and none is let in before it is inside: a lock that is polled for may never be had in a rush, and on a
        busy machine a turn in the queue may come after the time for it.
        """
        self.buyers.admission.clear()
        self.wait_for("the end of all purchases", lambda: not any(in_progress(each.url) for each in self.shops))
        answer = self.buyers.start_purchase(VICTIM, shop=shop, hold_ms=think_ms, timeout=timeout)
        self.wait_for("the victim's critical section", lambda: self.is_inside(VICTIM) or answer.done())
        self.buyers.admission.set()
        time.sleep(READ_S)
        if answer.done():
            raise MistimedFault("the victim was answered at once: {outcome}", outcome=answer.result().outcome.value)
        name = self.shops[shop].name
        self.announce("{shop} holds the lock, and its buyer thinks for {ms} ms", shop=name, ms=think_ms)
        return answer

    def let_others_buy(self) -> None:
        """Wait for sales, then admit no more buyers, and wait until no more are served.

        What is written into a quiet sale stays as it was written; in a busy one the next buyer may hide it.
        """
        self.wait_for_sales()
        self.buyers.admission.clear()
        orders = -1
        while orders != self.monitor.orders:
            orders = self.monitor.orders
            time.sleep(CALM_S)

    def wait_out_lease(self) -> None:
        time.sleep(self.testbed.setup.ttl_s + 0.6)

    def is_inside(self, buyer: str) -> bool:
        """Whether the buyer's critical section has begun and is not over."""
        return any(section.buyer == buyer and section.left_ms is None for section in self.section_log.poll())
