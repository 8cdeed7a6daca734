"""The one sampler: reads all that is shown, several times a second, for any number of viewers.

Redis, etcd and each instance are asked in their own threads, each call with a deadline. The sampler takes their latest
answers, adds what the instances recorded, and publishes the change. A server that cannot be reached is shown as
unavailable; the rest goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import redis

from app.board.live.event_stream import EventStream
from app.board.live.record import ledger_row, record_of, section_row
from app.board.live.runs import MOST_ROWS, Run
from app.board.settings import BoardSettings
from app.board.sources.heartbeats import HeartbeatReader
from app.board.sources.instances import MAY_GO_ON, Instances
from app.board.sources.ledger import LedgerReader, LedgerReading, Order
from app.board.sources.locust import UNREACHABLE, Locust
from app.board.sources.opening import read_opening
from app.board.sources.poller import Poller
from app.board.sources.queue import TIMEOUT, read_queue
from app.board.sources.section_tail import Section, SectionTail
from app.board.sources.stack_client import StackClient
from app.clock import now_ns
from app.guards import GUARDS
from app.sales.opening import OpeningRecord
from app.sales.redis_client import connect as connect_redis
from app.sales.refusals import SaleLost
from lock import LockError
from lock import connect as connect_etcd

logger = logging.getLogger(__name__)

EVERY_S = 0.125
IDLE_S = 1.0  # the longest time without an event
OPENING_NS = 20_000_000  # without a reset the first purchase opens the sale, and has entered by then


class Sampler(threading.Thread):
    """Watches one sale; `start` it, and `close` it.

    Attributes:
        stream: what it sees, for viewers.
    """

    def __init__(self, settings: BoardSettings, *, stack: StackClient | None, locust: Locust) -> None:
        super().__init__(name="sampler", daemon=True)
        shop = settings.shop
        self.stream = EventStream(self.snapshot, viewers=settings.viewers)
        self._redis = connect_redis(shop.redis_url, connections=3, timeout=TIMEOUT)
        self._etcd = connect_etcd(shop.etcd_endpoints, timeout=TIMEOUT)
        self._reader = LedgerReader(self._redis, shop.sale, shards=shop.shards)
        self._readings = SimpleQueue[LedgerReading | None]()
        self._record = OpeningRecord(self._etcd, shop.sale)
        self._confirmed: str | None = None  # the generation that etcd knows, too
        self._ledger = Poller("redis", self._read_ledger, errors=(redis.RedisError, SaleLost), every_s=EVERY_S)
        name = f"flash-sale/{shop.sale}"
        self._queue = Poller("etcd", lambda: read_queue(self._etcd, name), errors=(LockError,), every_s=EVERY_S)
        self._opening = Poller(
            "opening",
            lambda: read_opening(self._etcd, self._redis, shop.sale),
            errors=(LockError, redis.RedisError),
            every_s=4 * EVERY_S,
        )
        self._locust = Poller("locust", locust.state, errors=UNREACHABLE, every_s=1.0)
        self._instances = Instances(settings.instances, stack)
        self._section_tail = SectionTail(shop.section_log)
        self._heartbeats = HeartbeatReader(shop.section_log)
        self._promises = {guard.name: guard.promise.value for guard in GUARDS}
        self._closed = threading.Event()
        self._data = threading.Lock()  # of all that follows; no file is read while it is held
        self._run: Run | None = None
        self._ended: dict[str, Run] = {}  # the last run under each guard, in the order of their ends
        self._early: deque[Section] = deque(maxlen=MOST_ROWS)  # read before it was known which run they belong to
        self._lock_ms: int | None = None
        self._state: dict[str, Any] = {}
        self._published_at = 0.0

    def run(self) -> None:
        watchers: list[Poller[Any] | Instances] = [
            self._ledger,
            self._queue,
            self._opening,
            self._locust,
            self._instances,
        ]
        for watcher in watchers:
            watcher.start()
        while not self._closed.is_set():
            began = time.monotonic()
            try:
                self.sample()
            except Exception:
                logger.exception("a sample failed")
            self._closed.wait(max(0.0, began + EVERY_S - time.monotonic()))
        for watcher in watchers:
            watcher.close()
        for watcher in watchers:
            watcher.join()
        self._redis.close()
        self._etcd.close()

    def _read_ledger(self) -> None:
        reading = self._reader.read()
        generation = reading.generation if reading else ""
        if generation != self._confirmed:
            with suppress(LockError):  # the poller of the queue reports that etcd is unavailable
                opened = self._record.read()
                if opened and generation not in (opened.generation, opened.opening.generation):
                    raise SaleLost
                self._confirmed = generation
        self._readings.put(reading)

    def close(self) -> None:
        """Stop, and end all streams."""
        self._closed.set()
        self.stream.close()

    def record(self, guard: str) -> dict[str, Any] | None:
        """The last run under `guard` as a record; None if there was none."""
        with self._data:
            run = self._run if self._run and self._run.guard == guard else self._ended.get(guard)
            return record_of(run, self._promises) if run else None

    def snapshot(self) -> tuple[int, dict[str, Any]]:
        """All that is known, and the number of the last event that it includes."""
        with self._data:
            return self.stream.number, self._everything()

    def sample(self) -> None:
        """Look once, and publish what has changed."""
        sections, _ = self._section_tail.poll(), self._heartbeats.read()
        with self._data:
            begun, orders = self._take_readings()
            self._early += sections
            own = self._run.add_sections(self._early) if self._run else []
            if self._run:
                self._early.clear()
            state, now = self._look(), time.monotonic()
            if not (begun or orders or own or state != self._state or now - self._published_at >= IDLE_S):
                return
            self._state, self._published_at = state, now
            if begun:
                self.stream.publish("hello", self._everything())
            else:
                self.stream.publish("sample", {**self._moment(), **self._rows(orders, own)})

    def _take_readings(self) -> tuple[bool, list[Order]]:
        """Whether a run has begun since the last sample, and the orders that are new in it."""
        begun, orders = False, list[Order]()
        with suppress(Empty):
            while True:
                reading = self._readings.get_nowait()
                if reading is None:
                    continue
                if self._run is None or self._run.generation != reading.generation:
                    self._run = self._begin(reading)
                    begun, orders = True, []
                self._run.snapshot = reading.snapshot
                self._lock_ms = reading.redis_lock_ms
                orders += self._run.add_orders(reading.new)
        return begun, orders

    def _begin(self, reading: LedgerReading) -> Run:
        """A run for this reading; the run before it is over."""
        before = self._run
        run = Run(reading.generation, reading.snapshot, slack_ns=0 if before else OPENING_NS)
        self._heartbeats.begin(run.began_ns)
        if before is not None:
            run.add_sections(before.end(run.began_ns, reading.ended))
            if reading.ended is not None and before.guard is not None:
                self._ended.pop(before.guard, None)
                self._ended[before.guard] = before
        return run

    def _look(self) -> dict[str, Any]:
        """The state of everything, without the rows that are only ever added."""
        queue, ledger, opening = self._queue.latest, self._ledger.latest, self._opening.latest
        beats = self._heartbeats
        instances = self._instances.look(beats.living, since_ns=self._run.began_ns if self._run else 0)
        if self._run is not None:
            holder, waiting = queue.value.head if queue.value else (None, None)
            self._run.add_sample(holder, waiting, known=ledger.error is None)
            waits = {each["name"] for each in instances if each["state"] in MAY_GO_ON}
            dead = [beat for beat in beats.stale if beat.instance not in waits]
            lost = sum(beat.in_hand for beat in dead if beat.at >= self._run.began_ns)
            in_hand = sum(beat.in_hand for beat in [*beats.living, *beats.stale] if beat not in dead)
            self._run.answered(beats.outcomes, in_hand=in_hand, lost=lost)
        return {
            "unavailable": {"redis": ledger.error, "etcd": queue.error},
            "sale": self._run.summary() if self._run else None,
            "opening": self._state.get("opening") if opening.error else opening.value,  # None: a reset has opened it
            "queue": queue.value.as_json() if queue.value else None,
            "redis_lock_ms": self._lock_ms,
            "instances": instances,
            "rates": beats.per_second(),
            "locust": self._locust.latest.value,
        }

    def _moment(self) -> dict[str, Any]:
        """The last state, and the time in the run."""
        return {**self._state, "now_ms": self._run.ms(now_ns()) if self._run else None}

    def _rows(self, orders: Iterable[Order], sections: Iterable[Section]) -> dict[str, Any]:
        run = self._run
        return {
            "orders": [ledger_row(run, order) for order in orders] if run else [],
            "sections": [{"number": each.number, **section_row(run, each)} for each in sections] if run else [],
        }

    def _everything(self) -> dict[str, Any]:
        rows = self._rows(self._run.orders, self._run.sections.values()) if self._run else self._rows([], [])
        return {**self._moment(), "ended": [each.summary() for each in self._ended.values()], **rows}
