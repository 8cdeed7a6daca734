"""Purchases that stop at every point of their critical section until they are told to go on: "you are the scheduler".

``POST /steps`` starts one, ``POST /steps/ID`` lets it go on to its next stop, ``GET /steps`` shows all, and
``DELETE /steps`` ends them. It stops at each point or, by its commands, before everything that it sends to Redis and
etcd: the points are then places that it passes. They pass through the real guard, Redis and etcd, each in its own
thread: a purchase that stops is a slow holder, whose lease is kept.

A purchase has `LIMIT_S` seconds in all. When they are over, or it is ended, it writes nothing and leaves its lock.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
import time
import uuid
from contextlib import nullcontext, suppress
from copy import copy
from dataclasses import asdict
from functools import cache
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import Conflict, NotFound

from app import services
from app.guards.base import Guard
from app.sales.purchase import Purchase, PurchaseListener, Receipt, Section
from app.sales.redis_client import LUA, Script
from app.sales.refusals import EXPECTED, refuse
from app.telemetry.guard_lines import GuardLines
from app.web.access import require_admin
from app.web.params import Parameters
from app.web.responses import json_response
from labs.steps.mistakes import mistakes
from labs.steps.wire import Fate, sent_by
from lock import LockError, LockTimeout

logger = logging.getLogger(__name__)

PATH = "/steps"
LIMIT_S = 180.0
MOST = 8  # under way in one process; each has a thread
ANSWER_S = 0.3  # how long the answer to a step waits for the next point; a purchase that queues takes longer
END_S = 5.0
HAND_TTL_S = 60  # of a mistake's lock, which nothing renews while a person steps its holder
POINTS, COMMANDS = "points", "commands"
LAST_REQUESTS = 20  # to etcd, of a purchase that has ended
ETCD_REQUEST = re.compile("[A-Z][a-z]")
VARIES = re.compile(r"[0-9a-f-]{12,}|\d{3,}")


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
        is_noted: whether `attempts` are kept where it stops at points, too.

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
        failure: the error that has ended it, if it is none that guards are expected to raise.
        thread: in which it is made.
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
        is_noted: bool = False,
    ) -> None:
        self.id = uuid.uuid4().hex[:12]
        self._guard, self._buyer, self._instance, self._inner = guard, buyer, instance, inner
        self._lines = GuardLines(type(guard).buy)
        self._until = time.monotonic() + limit_s
        self._changed = threading.Condition()
        self.point, self._line = "start", self._lines.source.first_line
        self.stands = self._go = self._ended = False
        self.stops = 0
        self.section: Section | None = None
        self.receipt: Receipt | None = None
        self.order = ""
        self.failure = ""
        self._is_noted = is_noted or grain == COMMANDS
        self.grain, self.command, self.writes, self.fate = grain, "", False, Fate.ANSWERED
        self.attempts: list[list[str]] = [[]]
        self.in_vain = False
        self._sent_since_end = 0
        # The name stands in the queue in etcd, by which a purchase that waits tells behind which one.
        self.thread = threading.Thread(target=self._run, name=f"steps-{self.id}", daemon=True)

    def start(self) -> None:
        """Begin, and return when it stands before the guard."""
        self.thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self.stands, ANSWER_S)

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
    def is_over(self) -> bool:
        return self.point == "over"

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
        moving = not self.stands and not self.is_over
        frame = sys._current_frames().get(self.thread.ident or 0) if moving else None
        return self._lines.line_of(frame) or self._line

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

    def sending(self, command: str, *, writes: bool) -> Fate:
        """It stops before a command; raises NotStepped once it has ended, but its lock is still released in etcd."""
        if self._ended:
            self._sent_since_end += 1
            if self._sent_since_end > LAST_REQUESTS or not ETCD_REQUEST.match(command):
                raise NotStepped("nobody let this purchase go on in time, or it was ended")
        if self.grain == COMMANDS:
            self.command, self.writes = command, writes
            self._stand()
            self.command, self.in_vain = "", False
        self.attempts[-1].append(command)
        fate, self.fate = self.fate, Fate.ANSWERED
        return fate

    def answered(self, answer: str) -> None:
        self.attempts[-1].append(f"> {answer}")

    def pauses(self) -> None:
        """An attempt is over, if it has sent anything."""
        if not self.attempts[-1]:
            return
        if len(self.attempts) > 1 and _alike(self.attempts[-1], self.attempts[-2]):
            self.attempts.pop()
            self.in_vain = True
        self.attempts.append([])

    def _stop(self, point: str) -> None:
        self.point, self._line = point, self._lines.line_of(sys._getframe()) or self._line
        if self.grain == POINTS or point == "start":
            self._stand()

    def _stand(self) -> None:
        with self._changed:
            self._line = self._lines.line_of(sys._getframe()) or self._line
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
        except Exception as error:
            logger.exception("the purchase %s failed", self.id)
            self.failure = f"{type(error).__name__}: {error}"
        with self._changed:
            self.receipt, self.point, self.stands = receipt, "over", False
            self._changed.notify_all()

    def _buy(self) -> Receipt:
        patience = self._until - time.monotonic()
        purchase = Purchase(self._buyer, self._guard.name, instance=self._instance, listener=self)
        self.order = purchase.order
        # A guard lets a purchase wait for `lock_timeout` seconds since it began. This one has its own limit.
        purchase.began += patience - self._guard.lock_timeout
        try:
            self._check()
            with sent_by(self) if self._is_noted else nullcontext():
                return self._guard.serve(purchase)
        except EXPECTED as error:
            return refuse(purchase, error)


def _alike(attempt: list[str], other: list[str]) -> bool:
    """Whether they differ by nothing but times and names that each attempt makes anew."""
    return [VARIES.sub("#", text) for text in attempt] == [VARIES.sub("#", text) for text in other]


def know_the_sale(shop: services.Services) -> None:
    """Have each purchase begin alike: this instance knows of the reset, and asks before it waits for a lock."""
    shop.sale.check()
    for stock in shop.stocks.values():
        stock.sold_out_at = time.monotonic()


@cache
def scripts() -> list[Script]:
    """Those that a purchase may run."""
    return [Script(path) for path in LUA.glob("*.lua") if path.name != "common.lua"]


class Steps:
    """The stepped purchases of one process; background work of the shop, which ends them when it shuts down."""

    def __init__(self, shop: services.Services, *, limit_s: float = LIMIT_S) -> None:
        self._shop = shop
        self._limit_s = limit_s
        self._purchases: dict[str, SteppedPurchase] = {}
        self._adding = threading.Lock()
        parts = copy(shop)
        parts.settings = shop.settings.model_copy(update={"lease_ttl": HAND_TTL_S})
        self.guards = {**shop.guards, **{name: kind(parts) for name, kind in mistakes().items()}}

    def add(self, guard: str, buyer: str, grain: str = POINTS) -> SteppedPurchase:
        """Start one; raises Conflict if there are too many. The oldest of those that are over are forgotten."""
        if grain == COMMANDS:  # no command more than where the schedules are tried
            know_the_sale(self._shop)
            for script in scripts():
                self._shop.sale.client.script_load(script.text)
            with suppress(LockError):  # without etcd, the purchase finds out by itself
                self._shop.sessions.session()
        made = SteppedPurchase(
            self.guards[guard],
            buyer,
            instance=self._shop.settings.instance,
            inner=self._shop.listener,
            limit_s=self._limit_s,
            grain=grain,
        )
        with self._adding:
            over = [id for id, each in self._purchases.items() if each.is_over]
            if len(self._purchases) - len(over) >= MOST:
                raise Conflict(f"{MOST} purchases are under way here already: end them with DELETE {PATH}.")
            for id in over[: max(len(self._purchases) - MOST + 1, 0)]:
                del self._purchases[id]
            self._purchases[made.id] = made
        made.start()
        return made

    def of(self, id: str) -> SteppedPurchase:
        """The purchase with this id; raises NotFound."""
        if id not in self._purchases:
            raise NotFound(f"There is no stepped purchase {id!a:.40} here: GET {PATH} shows all.")
        return self._purchases[id]

    def show(self) -> list[dict[str, Any]]:
        return [each.show() for each in list(self._purchases.values())]

    def end(self) -> None:
        """End all, and forget those that are over within `END_S` seconds."""
        purchases, until = list(self._purchases.values()), time.monotonic() + END_S
        for each in purchases:
            each.end()
        for each in purchases:
            each.join(max(until - time.monotonic(), 0.0))
            if each.is_over:
                self._purchases.pop(each.id, None)

    def start(self) -> None: ...

    close = end


def init_app(app: Flask) -> None:
    """Register the routes; who may step is who may reset."""
    shop = services.of(app)
    steps = Steps(shop)
    shop.background.append(steps)

    def shown() -> Response:
        return json_response({"purchases": steps.show()})

    @app.get(PATH)
    def show_steps() -> Response:
        return shown()

    @app.post(PATH)
    def add_stepped() -> Response:
        require_admin(shop.settings, "steps")
        asked = Parameters(request, "guard", "buyer", "grain")
        guard, grain = asked.choice("guard", "none", steps.guards), asked.choice("grain", POINTS, (POINTS, COMMANDS))
        made = steps.add(guard, asked.text("buyer", "anonymous"), grain)
        return json_response(made.show())

    @app.post(f"{PATH}/<id>")
    def step(id: str) -> Response:
        require_admin(shop.settings, "steps")
        stepped = steps.of(id)
        stepped.step()
        return json_response(stepped.show())

    @app.delete(PATH)
    def end_steps() -> Response:
        require_admin(shop.settings, "steps")
        steps.end()
        return shown()
