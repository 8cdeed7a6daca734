"""The scheduled opening: one elected instance opens the sale at a set time, only once.

Why it is right:

- Opened once. The schedule fixes the generation of the opening, and the script goes from that of the closed sale to
  this one only. A late leader, paused past its lease, finds the sale open, or a higher token.
- Nothing sold before. A closed sale has no stock that a script could take, and the step that opens it asks Redis's
  clock, as all do that tell or wait: the clocks of the instances decide nothing.
- Nothing acknowledged is forgotten. Redis is opened first, etcd follows, and only then does a purchase know the
  generation. A crash between the two costs nothing: the next leader, or the first purchase anywhere, tells etcd.
- Opened in any case. The key of a leader that died or is cut off ends with its lease; the next candidate leads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import redis

from app.sales.opening import Opened
from app.sales.purchase import Token
from app.sales.redis_client import Script
from app.sales.refusals import PurchaseError
from app.sales.sale import Sale
from app.sales.slots import Slot
from app.sales.stock import fence_text
from lock import Election, LockError, Session

logger = logging.getLogger(__name__)

REREAD_S = 1.0  # a leader looks this often whether the schedule changed
RETRY_S = 0.5
OPEN = Script(Path(__file__).with_name("open.lua"))


class NoSchedule(PurchaseError):
    """The sale is open already, or closed without a time."""


class Schedule:
    """The time at which a sale opens. All items open together.

    Attributes:
        election: its name in etcd; the instance that wins it opens the sale.
    """

    def __init__(self, sale: Sale) -> None:
        self.sale = sale
        # Not below flash-sale/SALE/, the queue of the mutex.
        self.election = f"{sale.record.key.rpartition('/')[0]}/opener"
        self._opener = sale.keys.prefix + "opener"  # a hash: what a leader opened last, when, and the highest token

    def set(self, stock: int, opens_at_ms: int | None) -> None:
        """Close the sale until that time; it then opens with `stock` pieces of each item. Raises as a reset."""
        self.sale.begin(lambda _: Opened("", stock, is_open=False, opens_at_ms=opens_at_ms))

    def cancel(self) -> None:
        """Leave the sale closed until a reset or another schedule; raises `NoSchedule`, or as a reset."""

        def without_time(before: Opened | None) -> Opened:
            if before is None or before.opens_at_ms is None:
                raise NoSchedule("there is no schedule to cancel: see GET /sale")
            return before._replace(opens_at_ms=None)

        self.sale.begin(without_time)

    def read(self) -> Opened | None:
        """The last opening or closing in etcd; None if the sale was never opened. Raises `EtcdError`."""
        opened = self.sale.record.read()
        if opened:
            self.sale.note_closed(opened)
        return opened

    def planned(self) -> Opened | None:
        """What has yet to open. Raises `EtcdError`."""
        opened = self.read()
        return opened if opened and opened.opens_at_ms is not None else None

    def left_s(self, planned: Opened) -> float:
        """Seconds until it opens, by Redis's clock; negative if that is over. Raises `redis.RedisError`."""
        return (planned.opens_at_ms or 0) / 1000 - self.sale.now_s()

    def opened_at_ms(self, opened: Opened) -> int | None:
        """When a leader opened it, in milliseconds since the epoch; None if it was a reset."""
        generation, at_ms = self.sale.client.hmget(self._opener, ["generation", "at_ms"])
        return int(at_ms) if at_ms and generation == opened.generation else None

    def open(self, fence: Token | None) -> tuple[str, str]:
        """Try to open it now, in Redis and then in etcd; the first refusal, or "opened".

        Raises:
            redis.RedisError, EtcdError: it may be open, or not.
        """
        planned = self.planned()
        if planned:
            for slots in reversed(self.sale.places):  # the treasury last: it has the stock
                (status, *found), *_ = self._open(slots, planned, fence)  # an item that was lost is not opened
                if status not in ("opened", "open"):
                    return status, str(found[0])
            self.sale.confirm(planned)
        return "opened", ""

    def _open(self, slots: Sequence[Slot], planned: Opened, fence: Token | None) -> list[list[str]]:
        """The script's answers for one of `Sale.places`."""
        stock = planned.stock if slots is self.sale.places[0] else 0
        generations = [planned.generation, planned.opening.generation]
        asked: list[str | int] = [*generations, stock, planned.opens_at_ms or 0, fence_text(fence)]
        calls = [([k.initial, k.stock, k.generation, k.prefix + "opener"], asked) for _, k in slots]
        return OPEN.run_together(slots[0].client, calls)


class Opener(threading.Thread):
    """A candidate for the leader that opens the sale, in each worker process.

    While nothing is scheduled it costs one watch, of the record, and no election. `instance` is the name of the
    candidate. A leader that is not fenced sends no token: if it is late, it opens the sale again.
    """

    def __init__(self, schedule: Schedule, session: Callable[[], Session], *, instance: str, is_fenced: bool) -> None:
        super().__init__(name="opener", daemon=True)
        self._schedule = schedule
        self._record = schedule.sale.record
        self._session = session
        self._instance = instance
        self._is_fenced = is_fenced
        self._closing = threading.Event()
        self._end_watch: Callable[[], None] = lambda: None

    def run(self) -> None:
        said = ""
        while not self._closing.is_set():
            try:
                self._await_schedule()
                if not self._closing.is_set():
                    self._lead()
            except (LockError, redis.RedisError, PurchaseError) as error:
                if not self._closing.wait(RETRY_S) and str(error) != said:  # once, however long etcd is unavailable
                    said = str(error)
                    logger.warning("opener: %s", said)

    def close(self) -> None:
        """End; a leader resigns. The session's `cancel_waiters` ends a candidacy."""
        self._closing.set()
        self._end_watch()

    def _await_schedule(self) -> None:
        with closing(self._record.client.watch(self._record.key)) as watch:
            self._end_watch = watch.close
            for _ in watch:
                if self._schedule.planned() or self._closing.is_set():
                    return

    def _lead(self) -> None:
        """Wait for the election, then for the time; return when the sale is open or no longer scheduled."""
        with Election(self._session(), self._schedule.election).campaign(self._instance) as leadership:
            while not self._closing.is_set():
                planned = self._schedule.planned()
                if not planned:
                    return
                left = self._schedule.left_s(planned)
                if left <= 0:
                    leadership.ensure()
                    left = self._open(leadership.token if self._is_fenced else None)
                leadership.lost.wait(min(left, REREAD_S))
                leadership.ensure()

    def _open(self, fence: Token | None) -> float:
        """Try to open; return the seconds until the next look."""
        status, found = self._schedule.open(fence)
        if status == "opened":
            logger.info("the sale is open")
            return 0.0
        if status == "early":
            return int(found) / 1000
        logger.error("the sale cannot be opened, %s: %s", status, found or "Redis has lost it, reset it")
        return REREAD_S
