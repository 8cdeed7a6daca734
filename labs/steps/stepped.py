"""One purchase that stops until it is told to go on, in its own thread.

It stops at each point of its critical section or, by its commands, before everything that its process sends to Redis
and etcd: the points are then places that it passes.
"""

from __future__ import annotations

import inspect
import logging
import random
import re
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from werkzeug.exceptions import Conflict

from app.contract.keys import DEFAULT_ITEM
from app.guards.base import Guard
from app.sales.purchase import Purchase, PurchaseListener, Receipt, Section
from app.sales.refusals import EXPECTED, refuse
from app.telemetry.guard_lines import GuardLines
from labs.steps.attempts import Attempts
from labs.steps.frames import current_frames
from labs.steps.wire import Fate
from lock import LockTimeout

logger = logging.getLogger(__name__)

ANSWER_S = 0.3  # how long the answer to a step waits for the next point; a purchase that queues takes longer
TICK_S = 1.0
START_S = 15.0  # to its thread and its first point: on a busy machine that takes a while
POINTS, COMMANDS = "points", "commands"
LAST_REQUESTS = 20  # to etcd, of a purchase that has ended
ETCD_REQUEST = re.compile("[A-Z][a-z]")


class NotStepped(LockTimeout):
    """The purchase was not told to go on in time, or was ended; nothing was written."""


class SteppedPurchase(PurchaseListener):
    """One purchase, its thread and its point; it stops at `POINTS` or `COMMANDS`, its granularity.

    A listener that raises at `locked` or `left` would hide what the guard does there, so a purchase that is over its
    limit of seconds goes on from there, and is refused at the latest before it writes. `inner`, the instance's ordinary
    listener, hears of all as well. See `Attempts` for `forgets` and `chance`.
    """

    def __init__(
        self,
        guard: Guard,
        buyer: str,
        *,
        instance: str,
        inner: PurchaseListener,
        limit_s: float,
        granularity: str = POINTS,
        id: str = "",
        item: str = DEFAULT_ITEM,
        forgets: bool = False,
        chance: random.Random | None = None,
    ) -> None:
        self.id = id or uuid.uuid4().hex[:12]
        self._guard, self._buyer, self._item, self._instance, self._inner = guard, buyer, item, instance, inner
        self._lines = GuardLines(type(guard).buy)
        self._left_s = limit_s  # none of it passes while the process is frozen
        # The name stands in the queue in etcd, by which a purchase that waits tells behind which one.
        self.thread = threading.Thread(target=self._run, name=f"steps-{self.id}", daemon=True)
        self._turn = threading.RLock()  # of its threads
        self.is_exchanging = False  # one of them sends, or waits for the answer

        self.granularity = granularity
        self.point = "start"  # the last one, or "over"
        self._line = inspect.unwrap(type(guard).buy).__code__.co_firstlineno
        self._changed = threading.Condition()
        self.stands = False  # it waits to be told to go on
        self._go = self._ended = False
        self._sent_since_end = 0
        self.stops = 0  # how often it came to a point
        self.paused = 0  # how often it has waited a moment, or looked whether it still may wait

        self.order = ""  # its id, if it sells; empty before it has begun
        self.section: Section | None = None  # its last one, if it came to one
        self.receipt: Receipt | None = None  # what its buyer is told, once that is decided
        self.failure = ""  # an error that guards are not expected to raise, or an answer that is no receipt

        self.command, self.writes = "", False  # that it is about to send; "" where it stands elsewhere
        self.fate = Fate.ANSWERED  # of the next command, see `labs.steps.wire`
        self._again = ""  # a script that Redis did not know
        self.clocks = set[float]()  # how many seconds had passed in its world when it looked at a clock
        self.watching = set[int]()  # local ports of its connections to Redis that have sent WATCH

        self.chance, self.attempts = chance, Attempts(forgets=forgets, chance=chance)

    def start(self) -> None:
        """Begin, and return when it stands before the guard."""
        self.thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self.stands, START_S)

    def step(self) -> None:
        """`go`, and wait a moment for the next point; raises Conflict."""
        self.go()
        self.wait_stopped(ANSWER_S)

    def go(self) -> None:
        """Let it go on; raises Conflict if it does not stand at a point."""
        with self._changed:
            if not self.stands:
                over = "is over" if self.is_over else "has not come to its next point: it waits"
                raise Conflict(f"Purchase {self.id} of {self._buyer} {over}.")
            self._go, self.stands, self.attempts.in_vain = True, False, False
            self._changed.notify_all()

    def wait_stopped(self, timeout: float) -> None:
        """Wait until it stands at a point or is over, for `timeout` seconds at most."""
        with self._changed:
            self._changed.wait_for(lambda: self.stands or self.is_over, timeout)

    def end(self) -> None:
        """Have it write nothing and leave its lock; its thread ends then."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def is_over(self) -> bool:
        """Whether its buyer has the answer, and no other thread of it stands before a command."""
        return self.point == "over" and not self.stands

    def show(self) -> dict[str, Any]:
        """The purchase for the page; its `line` is counted as in the file of its `source`."""
        own = {"id": self.id, "buyer": self._buyer, "guard": self._guard.name, "grain": self.granularity}
        with self._changed:
            return {**own, **self.seen(), "left_s": self._left_s, "source": asdict(self._lines.source)}

    def seen(self) -> dict[str, Any]:
        """Where it is, and what it knows."""
        section, receipt = self.section, self.receipt
        return {
            "point": self.point,
            "line": self.line(),
            "stands": self.stands,
            "command": self.command,
            "token": section.token if section else None,
            "stock_read": section.stock if section else None,
            "outcome": receipt.outcome.value if receipt else None,
            "stock": receipt.stock if receipt else None,
            "detail": receipt.detail if receipt else "",
        }

    def line(self) -> int | None:
        """Where it is in its guard's `buy`, counted as in the file."""
        return self._line_now() or self._line

    def _line_now(self) -> int | None:
        return self._lines.line_of(current_frames().get(self.thread.ident or 0))

    def locked(self, section: Section) -> None:
        self.section = section
        self._inner.locked(section)
        self._stop("locked")

    def read(self, section: Section) -> None:
        self._inner.read(section)
        self._stop("read")
        self._check()

    def think(self, section: Section) -> None:
        self._inner.think(section)
        self._stop("think")
        self._check()

    def write(self, section: Section) -> None:
        self._stop("write")
        self._check()
        self._inner.write(section)

    def left(self, section: Section, error: BaseException | None) -> None:
        if isinstance(error, EXPECTED) and not isinstance(error, NotStepped):
            self.receipt = refuse(section.purchase, error)
        elif section.receipt is not None:
            self.receipt = section.receipt
        self._stop("left")
        self._inner.left(section, error)

    @contextmanager
    def exchange(self) -> Iterator[None]:
        """One of its threads sends, and the others wait until that is answered."""
        with self._turn:
            self.is_exchanging = True
            try:
                yield
            finally:
                self.is_exchanging = False

    def sending(self, command: str, *, whole: str = "", writes: bool) -> Fate:
        """It stops before a command; raises NotStepped once it has ended, but its lock is still released in etcd.

        `whole`: the command, if `command` is only its beginning.
        """
        self._check_may_send(command)
        again, self._again = self._again, ""
        if again and command.startswith("EVAL"):
            whole = again
        elif self.granularity == COMMANDS:
            self.attempts.before(whole or command)
            self.command, self.writes = command, writes
            self._stand()
            self.command, self.attempts.in_vain = "", False
            self._check_may_send(command)
        self.attempts.add(whole or command)
        fate, self.fate = self.fate, Fate.ANSWERED
        return fate

    def _check_may_send(self, command: str) -> None:
        if self._ended:
            self._sent_since_end += 1
            if self._sent_since_end > LAST_REQUESTS or not ETCD_REQUEST.match(command):
                raise NotStepped("nobody let this purchase go on in time, or it was ended")

    def not_done(self, fate: Fate) -> None:
        """The server does not know the script, so that it is sent once more: one step, with this fate."""
        self.fate, self._again = fate, self.attempts.take_back()

    def answered(self, answer: str) -> None:
        self.attempts.add(f"> {answer}")

    def pauses(self) -> None:
        """It is about to try once more."""
        self.paused += 1
        self.attempts.pause()

    def _stop(self, point: str) -> None:
        self.point, self._line = point, self._lines.line_of(sys._getframe()) or self._line
        if self.granularity == POINTS or point == "start":
            self._stand()

    def _stand(self) -> None:
        with self._changed:
            self._line = self._line_now() or self._line
            self.stands, self.stops = True, self.stops + 1
            self._changed.notify_all()
            while self._left_s > 0 and not (self._go or self._ended):
                self._left_s -= 0.0 if self._changed.wait(TICK_S) else TICK_S
            self._ended |= not self._go
            self.stands = self._go = False

    def _check(self) -> None:
        if self._ended:
            raise NotStepped("nobody let this purchase go on in time, or it was ended")

    def _run(self) -> None:
        receipt = None
        try:
            self._stop("start")
            receipt = self._buy()
            if not isinstance(receipt, Receipt):
                self.failure = f"buy returned {receipt!r:.80}, not a Receipt"
        except Exception as error:
            logger.exception("the purchase %s failed", self.id)
            self.failure = f"{type(error).__name__}: {error}"
        with self._changed:
            self.receipt, self.point = None if self.failure else receipt, "over"
            self._changed.notify_all()

    def _buy(self) -> Receipt:
        purchase = Purchase(self._buyer, self._guard.name, self._item, instance=self._instance, listener=self)
        self.order = purchase.order
        # A guard lets a purchase wait for `lock_timeout` seconds since it began. This one has its own limit.
        purchase.began += self._left_s - self._guard.lock_timeout
        try:
            self._check()
            return self._guard.serve(purchase)
        except EXPECTED as error:
            return refuse(purchase, error)
