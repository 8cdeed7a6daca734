"""The scheduled opening: one elected instance opens the sale at a set time, only once.

A closed sale has no stock, and a key of this lab names its generation. Its opening gives it stock and a new generation
in one step of Redis.

Why it is right:

- Opened once. The script opens the generation that its leader has read, and leaves another one. A late leader, paused
  past its lease, finds a new generation, or a higher token.
- Nothing sold before. A closed sale has nothing to sell, and the script that opens it asks Redis's clock, as all do
  that tell or wait: the clocks of the instances decide nothing.
- Opened in any case. The key of a leader that died or is cut off ends with its lease; the next candidate leads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

import redis

from app.sales.purchase import Token, fence_text
from app.sales.redis_client import Script
from app.sales.refusals import PurchaseError
from app.sales.sale import Sale
from lock import Election, LockError, Session

logger = logging.getLogger(__name__)

LOOK_S = 0.5  # a candidate looks this often whether the sale is scheduled, or scheduled again
OPEN, CLOSE = (Script(Path(__file__).with_name(f"{name}.lua")) for name in ("open", "close"))


class NotScheduled(PurchaseError):
    """There is nothing to cancel, or another reset or schedule was faster."""


class Closed(NamedTuple):
    """A closed sale."""

    generation: str  # of the closed sale; its opening makes another one
    stock: int  # pieces of each item at the opening
    opens_at_ms: int | None  # when it opens, in milliseconds since the epoch; `None` if no time is set
    opens_in_s: float | None  # seconds until then by Redis's clock, negative if that is over; `None` if no time is set

    @property
    def opens_at(self) -> str | None:
        return None if self.opens_at_ms is None else rfc3339(self.opens_at_ms)


def rfc3339(at_ms: int) -> str:
    """A time in milliseconds since the epoch, in UTC."""
    at = datetime.fromtimestamp(at_ms / 1000, timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class OpeningSchedule:
    """The time at which a sale opens. All items open together. Every method may raise `redis.RedisError`."""

    def __init__(self, sale: Sale, name: str) -> None:
        self.sale = sale
        # Its name in etcd, not below flash-sale/SALE/, the queue of the mutex. Who wins it opens the sale.
        self.election = f"sale/{name}/opener"
        prefix = sale.keys.prefix
        self._opening = prefix + "opening"  # a hash: the generation that it closes, the stock and time of the opening
        self._opener = prefix + "opener"  # a hash: what a leader opened last, when, and the highest token
        self._open = "", False  # a generation that is not closed, and will never be; and whether a leader has opened it

    def set(self, stock: int, opens_at_ms: int | None) -> None:
        """Close the sale until that time; `stock` is of each item. Raises EtcdError, as a reset, or NotScheduled."""
        self.sale.reset(0)
        self._close(self.sale.generation, stock, opens_at_ms)

    def cancel(self) -> None:
        """Leave the sale closed until a reset or another schedule; raises `NotScheduled`."""
        closed = self.read()
        if closed is None or closed.opens_at_ms is None:
            raise NotScheduled("there is no schedule to cancel: see GET /sale")
        self._close(closed.generation, closed.stock, None)

    def _close(self, generation: str, stock: int, opens_at_ms: int | None) -> None:
        keys, sent = [self.sale.keys.generation, self.sale.keys.answers, self._opening], time.monotonic()
        found, now_us = CLOSE.run(
            self.sale.client, keys, [generation, stock, "" if opens_at_ms is None else opens_at_ms]
        )
        if not found:
            raise NotScheduled("the sale was reset or opened at the same moment: see GET /sale, and try again")
        self.sale.follow(generation, found, now_us, sent)

    def read(self) -> Closed | None:
        """The closed sale; `None` if it is open, or not there."""
        with self.sale.client.pipeline(transaction=True) as pipe:
            pipe.get(self.sale.keys.generation)
            pipe.hmget(self._opening, "generation", "stock", "opens_at_ms")
            pipe.time()
            found, (generation, stock, at_ms), (seconds, microseconds) = pipe.execute()
        if generation is None or found != generation:
            return None
        if not at_ms:
            return Closed(generation, int(stock), None, None)
        return Closed(generation, int(stock), int(at_ms), int(at_ms) / 1000 - seconds - microseconds / 1e6)

    def was_early(self, clicked: float) -> bool:
        """Whether the sale is closed, or a leader has opened it after this time of `time.monotonic`.

        As this process knows the sale; Redis is asked unless it has said that this generation is open.
        """
        generation, begun_at = self.sale.generation, self.sale.begun_at
        known, by_leader = self._open
        if generation != known:
            closed, opened = self.sale.client.hmget(self._opening, "generation", "opened")
            if closed == generation:
                return True
            self._open = generation, by_leader = generation, opened == generation
        return by_leader and clicked < begun_at

    def opened_at_ms(self) -> int | None:
        """When a leader opened the present sale, in milliseconds since the epoch; `None` if it was a reset."""
        with self.sale.client.pipeline(transaction=True) as pipe:
            pipe.get(self.sale.keys.generation)
            pipe.hmget(self._opener, "generation", "at_ms")
            found, (generation, at_ms) = pipe.execute()
        return int(at_ms) if at_ms and generation == found else None

    def open(self, closed: Closed, fence: Token | None) -> tuple[str, str]:
        """Try to open it now: what `open.lua` returns. If it raises `redis.RedisError`, it may be open, or not."""
        keys = [self.sale.keys.generation, self.sale.keys.answers, self._opening, self._opener]
        for k in self.sale.keys_of.values():
            keys += [k.initial, k.stock]
        status, *detail = OPEN.run(self.sale.client, keys, [closed.generation, fence_text(fence)])
        return status, str(detail[0]) if detail else ""


class Opener(threading.Thread):
    """A candidate for the leader that opens the sale, in each worker process.

    While nothing is scheduled it costs two looks at Redis a second, and no election. `instance` is the name of the
    candidate. A leader that is not fenced sends no token: if it is late, it opens the sale again.
    """

    def __init__(
        self, schedule: OpeningSchedule, session: Callable[[], Session], *, instance: str, is_fenced: bool
    ) -> None:
        super().__init__(name="opener", daemon=True)
        self._schedule = schedule
        self._session = session
        self._instance = instance
        self._is_fenced = is_fenced
        self._closing = threading.Event()

    def run(self) -> None:
        logged = ""
        while not self._closing.wait(LOOK_S):
            try:
                if self._planned():
                    self._lead()
            except (LockError, redis.RedisError, PurchaseError) as error:
                if not self._closing.is_set() and str(error) != logged:  # once, however long etcd is unavailable
                    logged = str(error)
                    logger.warning("opener: %s", logged)

    def close(self) -> None:
        """End; a leader resigns. The session's `cancel_waiters` ends a candidacy."""
        self._closing.set()

    def _planned(self) -> Closed | None:
        closed = self._schedule.read()
        return closed if closed and closed.opens_at_ms is not None else None

    def _lead(self) -> None:
        """Wait for the election, then for the time; return when the sale is open or no longer scheduled."""
        with Election(self._session(), self._schedule.election).campaign(self._instance) as leadership:
            while not self._closing.is_set() and (planned := self._planned()):
                left_s = planned.opens_in_s or 0.0
                if left_s <= 0:
                    leadership.ensure()
                    status, detail = self._schedule.open(planned, leadership.token if self._is_fenced else None)
                    logger.info("opening: %s %s", status, detail)
                leadership.lost.wait(min(max(left_s, 0.0), LOOK_S))
                leadership.ensure()
