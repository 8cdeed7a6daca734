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
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from werkzeug.exceptions import Conflict

from app.guards.base import Guard
from app.sales.purchase import Purchase, PurchaseListener, Receipt, Section
from app.sales.refusals import EXPECTED, refuse
from app.telemetry.guard_lines import GuardLines
from labs.steps.wire import Fate
from lock import LockTimeout

logger = logging.getLogger(__name__)

ANSWER_S = 0.3  # how long the answer to a step waits for the next point; a purchase that queues takes longer
START_S = 15.0  # to its thread and its first point: on a busy machine that takes a while
POINTS, COMMANDS = "points", "commands"
LAST_REQUESTS = 20  # to etcd, of a purchase that has ended
ETCD_REQUEST = re.compile("[A-Z][a-z]")
VARIES = re.compile(r"[0-9a-f-]{12,}|\d{3,}")
MOST_IN_A_ROUND, ROUNDS = 4, 4  # commands that are sent again and again, without a pause, are attempts as well


class NotStepped(LockTimeout):
    """The purchase was not told to go on in time, or was ended; nothing was written."""


class SteppedPurchase(PurchaseListener):
    """One purchase, its thread and its point.

    A listener that raises at `locked` or `left` would hide what the guard does there, so a purchase that is over its
    limit goes on from there, and is refused at the latest before it writes.

    Args:
        inner: the instance's ordinary listener, which hears of all as well.
        limit_s: seconds until the purchase ends by itself.
        grain: where it stops, `POINTS` or `COMMANDS`.
        id: its name, if not one by chance.
        forgets: whether attempts in vain are forgotten, as all of them are alike.
        chance: what it draws random numbers from, where they are to be the same in each run.

    Attributes:
        command: that it is about to send, as `redis-cli` would write it; "" where it stands elsewhere.
        writes: whether that command may change something.
        fate: what becomes of the next command; see `labs.steps.wire`.
        attempts: what it has sent and been answered; an attempt ends where it pauses before it tries once more.
        in_vain: whether its last attempt went as the one before, which then is forgotten.
        point: "start", the last one it came to, or "over".
        stands: whether it waits there to be told to go on.
        stops: how often it came to a point.
        section: its last critical section, if it came to one.
        order: the id of the order, if it sells; empty before it has begun.
        receipt: what its buyer is told, once that is decided.
        begins: whether it stands before an attempt, or what it is about to send may be another round of one.
        failure: the error that has ended it, if it is none that guards are expected to raise, or an answer that is no
            receipt.
        thread: in which it is made.
        keys: that it may have written.
        clocks: how many seconds had passed in its world when it looked at a clock.
        watching: see `labs.steps.wire.Stepped`.
    """

    def __init__(
        self,
        guard: Guard,
        buyer: str,
        *,
        instance: str,
        inner: PurchaseListener,
        limit_s: float,
        grain: str = POINTS,
        id: str = "",
        forgets: bool = True,
        chance: random.Random | None = None,
    ) -> None:
        self.id = id or uuid.uuid4().hex[:12]
        self.chance, self._states = chance, [chance.getstate()] if chance else []
        self._guard, self._buyer, self._instance, self._inner = guard, buyer, instance, inner
        self._lines = GuardLines(type(guard).buy)
        self._until = time.monotonic() + limit_s
        self._changed = threading.Condition()
        self.point, self._line = "start", inspect.unwrap(type(guard).buy).__code__.co_firstlineno
        self.stands = self._go = self._ended = False
        self.stops = 0
        self.section: Section | None = None
        self.receipt: Receipt | None = None
        self.order = ""
        self.failure = ""
        self._forgets, self._whole = forgets, ""
        self.keys, self.watching, self.clocks = set[str](), set[int](), set[float]()
        self.grain, self.command, self.writes, self.fate = grain, "", False, Fate.ANSWERED
        self.attempts: list[list[str]] = [[]]
        self.in_vain = False
        self._again = ""  # a script that Redis did not know
        self._sent_since_end = 0
        self._turn = threading.RLock()
        # The name stands in the queue in etcd, by which a purchase that waits tells behind which one.
        self.thread = threading.Thread(target=self._run, name=f"steps-{self.id}", daemon=True)

    def start(self) -> None:
        """Begin, and return when it stands before the guard."""
        self.thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self.stands, START_S)

    def step(self) -> None:
        """`go`, and wait a moment for the next point; raises Conflict."""
        self.go()
        self.wait_settled(ANSWER_S)

    def go(self) -> None:
        """Let it go on.

        Raises:
            Conflict: it does not stand at a point.
        """
        with self._changed:
            if not self.stands:
                over = "is over" if self.is_over else "has not come to its next point: it waits"
                raise Conflict(f"Purchase {self.id} of {self._buyer} {over}.")
            self._go, self.stands, self.in_vain = True, False, False
            self._changed.notify_all()

    def wait_settled(self, timeout: float) -> None:
        """Wait until it stands at a point or is over, for `timeout` seconds at most."""
        with self._changed:
            self._changed.wait_for(lambda: self.stands or self.is_over, timeout)

    def end(self) -> None:
        """Have it write nothing and leave its lock; `join` waits for it."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def join(self, timeout: float) -> None:
        self.thread.join(timeout)

    @property
    def begins(self) -> bool:
        attempt = self.attempts[-1]
        sizes = range(2, min(len(attempt), 2 * MOST_IN_A_ROUND) + 1, 2)
        return not attempt or any(attempt[-size] == self._whole for size in sizes)

    @property
    def is_over(self) -> bool:
        """Whether its buyer has the answer, and no other thread of it stands before a command."""
        return self.point == "over" and not self.stands

    def show(self) -> dict[str, Any]:
        """The purchase for the page; its `line` is counted as in the file of its `source`."""
        with self._changed:
            section, receipt = self.section, self.receipt
            return {
                "id": self.id,
                "buyer": self._buyer,
                "guard": self._guard.name,
                "point": self.point,
                "line": self.line(),
                "stands": self.stands,
                "grain": self.grain,
                "command": self.command,
                "left_s": round(max(self._until - time.monotonic(), 0.0), 1),
                "token": section.token if section else None,
                "stock_read": section.stock if section else None,
                "outcome": receipt.outcome.value if receipt else None,
                "stock": receipt.stock if receipt else None,
                "detail": receipt.detail if receipt else "",
                "source": asdict(self._lines.source),
            }

    def line(self) -> int | None:
        """Where it is in its guard's `buy`, counted as in the file."""
        return self._line_now() or self._line

    def _line_now(self) -> int | None:
        return self._lines.line_of(sys._current_frames().get(self.thread.ident or 0))

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
            yield

    def sending(self, command: str, *, whole: str = "", writes: bool, keys: Sequence[str] = ()) -> Fate:
        """It stops before a command; raises NotStepped once it has ended, but its lock is still released in etcd."""
        self._check_may_send(command)
        again, self._again = self._again, ""
        if again and command.startswith("EVAL"):
            whole = again
        elif self.grain == COMMANDS:
            if self._forgets and (size := _round(self.attempts[-1], whole or command)):
                del self.attempts[-1][-size:]
                self.in_vain = True
            self.command, self._whole, self.writes = command, whole or command, writes
            self._stand()
            self.command, self.in_vain = "", False
            self._check_may_send(command)
        self.attempts[-1].append(whole or command)
        self.keys.update(keys if writes else ())
        fate, self.fate = self.fate, Fate.ANSWERED
        return fate

    def _check_may_send(self, command: str) -> None:
        if self._ended:
            self._sent_since_end += 1
            if self._sent_since_end > LAST_REQUESTS or not ETCD_REQUEST.match(command):
                raise NotStepped("nobody let this purchase go on in time, or it was ended")

    def not_done(self, fate: Fate) -> None:
        self.fate, self._again = fate, self.attempts[-1].pop()

    def answered(self, answer: str) -> None:
        self.attempts[-1].append(f"> {answer}")

    def pauses(self) -> None:
        """An attempt is over, if it has sent anything."""
        if not self.attempts[-1] or not self._forgets:
            return
        in_vain = len(self.attempts) > 1 and self._is_alike(self.attempts[-1], self.attempts[-2])
        if in_vain:
            self.attempts.pop()
        self._begin_attempt(in_vain=in_vain)

    def _begin_attempt(self, *, in_vain: bool) -> None:
        """One in vain is forgotten, and with it what it has drawn."""
        self.in_vain |= in_vain
        self.attempts.append([])
        if self.chance and in_vain:
            self.chance.setstate(self._states[-1])
        elif self.chance:
            self._states = [*self._states[-1:], self.chance.getstate()]

    def _is_alike(self, attempt: list[str], other: list[str]) -> bool:
        """Whether they differ by nothing but what each attempt draws anew, or by times, where those run."""
        if self.chance is None:
            return [VARIES.sub("#", text) for text in attempt] == [VARIES.sub("#", text) for text in other]
        has_drawn = self.chance.getstate() != self._states[-1]
        return attempt == other or (has_drawn and list(map(_shape, attempt)) == list(map(_shape, other)))

    def _stop(self, point: str) -> None:
        self.point, self._line = point, self._lines.line_of(sys._getframe()) or self._line
        if self.grain == POINTS or point == "start":
            self._stand()

    def _stand(self) -> None:
        with self._changed:
            self._line = self._line_now() or self._line
            self.stands, self.stops = True, self.stops + 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._go or self._ended, max(self._until - time.monotonic(), 0.0))
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
        patience = self._until - time.monotonic()
        purchase = Purchase(self._buyer, self._guard.name, instance=self._instance, listener=self)
        self.order = purchase.order
        # A guard lets a purchase wait for `lock_timeout` seconds since it began. This one has its own limit.
        purchase.began += patience - self._guard.lock_timeout
        try:
            self._check()
            return self._guard.serve(purchase)
        except EXPECTED as error:
            return refuse(purchase, error)


def _shape(text: str) -> str:
    """Of a command its name and the number of its words; of an answer all."""
    return text if text.startswith("> ") else f"{text.split(' ')[0]} {text.count(' ')}"


def _round(attempt: list[str], command: str) -> int:
    """How many of the last texts are one round too many of commands that are sent again and again; 0 if none is."""
    for size in range(2, 2 * MOST_IN_A_ROUND + 1, 2):
        last = attempt[-size * ROUNDS :]
        if len(last) == size * ROUNDS and last[0] == command and last == last[:size] * ROUNDS:
            return size
    return 0
