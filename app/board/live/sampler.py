"""The one sampler: reads all that is shown, several times a second, for any number of viewers.

Redis, etcd and each instance are asked in their own threads, each call with a deadline. The sampler takes their latest
answers, adds what the instances recorded, and publishes the change. A server that cannot be reached is shown as
unavailable; the rest goes on.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from queue import SimpleQueue
from typing import Any

import redis

from app.board.live.arrival import Arrival
from app.board.live.event_stream import EventStream
from app.board.live.runs import MOST_SECTIONS, SaleRun
from app.board.settings import BoardSettings
from app.board.sources.etcd import TIMEOUT, read_queue
from app.board.sources.heartbeats import HeartbeatReader
from app.board.sources.instances import MAY_GO_ON, Instances
from app.board.sources.ledger import LedgerReader, LedgerReading
from app.board.sources.locust import UNREACHABLE, RushClient
from app.board.sources.poller import Poller
from app.board.sources.stack_client import StackClient
from app.config.etcd import connect_etcd
from app.contract.clock import now_ns
from app.contract.section_log import GuardSource, LoggedSection, SectionTail
from app.sales.redis_client import connect as connect_redis
from app.sales.refusals import PurchaseError, SaleLost
from lock import LockError

EVERY_S = 0.125
MOST_BYTES = 4 * 1024 * 1024  # of one section log in one sample; the end of a long one has the newest sales
LOCUST_EVERY_S = 1.0
ARRIVING_EVERY_S = EVERY_S  # while buyers come, and have not begun to click
IDLE_S = 1.0  # the longest time without an event
OPENING_NS = 20_000_000  # without a reset the first purchase opens the sale, and has entered by then


class Sampler(Poller[None]):
    """Watches one sale; `start` it, and `close` it.

    Attributes:
        stream: what it sees, for viewers.
    """

    def __init__(self, settings: BoardSettings, *, stack: StackClient | None, locust: RushClient) -> None:
        super().__init__("sampler", self.sample, errors=(), every_s=EVERY_S)
        shop = settings.shop
        self.stream = EventStream(self.snapshot, viewers=settings.viewers)
        self._redis = connect_redis(shop.redis_url, connections=3, timeout=TIMEOUT)
        self._etcd = connect_etcd(shop, timeout=TIMEOUT)
        self._reader = LedgerReader(self._redis, shop.sale)
        self._readings = SimpleQueue[LedgerReading]()
        self._newest = 0  # the highest generation that was read
        self._ledger = Poller("redis", self._read_ledger, errors=(redis.RedisError, PurchaseError), every_s=EVERY_S)
        queue = partial(read_queue, self._etcd, shop.queue_name)
        self._queue = Poller("etcd", queue, errors=(LockError,), every_s=EVERY_S)
        self._locust = Poller("locust", locust.status, errors=UNREACHABLE, every_s=LOCUST_EVERY_S)
        self._instances = Instances(settings.instances, stack)
        self._section_log = shop.section_log
        self._section_tail = SectionTail(shop.section_log, most_bytes=MOST_BYTES)
        self._heartbeats = HeartbeatReader(shop.section_log)
        self._data = threading.Lock()  # of all that follows; no file is read while it is held
        self._run: SaleRun | None = None
        self._ended: dict[str, SaleRun] = {}  # the last run under each guard, in the order of their ends
        self._early: deque[LoggedSection] = deque(maxlen=MOST_SECTIONS)  # of which run is not known yet
        self._arrival: Arrival | None = None
        self._state: dict[str, Any] = {}
        self._published_at = 0.0

    def run(self) -> None:
        pollers: list[Poller[Any]] = [self._ledger, self._queue, self._locust]
        for poller in pollers:
            poller.start()
        self._instances.start()
        super().run()
        self._instances.close()
        for poller in pollers:
            poller.close()
        for poller in pollers:
            poller.join()
        self._redis.close()
        self._etcd.close()

    def _read_ledger(self) -> None:
        reading = self._reader.read()
        generation = int(reading.generation) if reading else 0
        if generation < self._newest:
            raise SaleLost
        self._newest = generation
        if reading:
            self._readings.put(reading)

    def close(self) -> None:
        """Stop, and end all streams."""
        super().close()
        self.stream.close()

    def last_run(self, guard: str) -> dict[str, Any] | None:
        """The last run under `guard` with its orders and critical sections; `None` if there was none."""
        with self._data:
            run = self._run if self._run and self._run.guard == guard else self._ended.get(guard)
            if run is None:
                return None
            source = GuardSource.kept(self._section_log, guard)
            rows = {"orders": run.orders, "sections": run.films(), "source": source and asdict(source)}
            return {"sale": run.summary(), **rows}

    @contextmanager
    def expecting(self, *, guard: str, buyers: int, stock: int) -> Iterator[None]:
        """Show these buyers as on their way until their sale begins; not if the block, which asks for them, fails."""
        with self._data:
            generation = self._run.generation if self._run else None
            self._arrival = Arrival(guard=guard, buyers=buyers, stock=stock, generation=generation)
            self._locust.every_s = ARRIVING_EVERY_S
        try:
            yield
        except BaseException:
            with self._data:
                self._arrival = None
            raise

    def snapshot(self) -> tuple[int, dict[str, Any]]:
        """All that is known, and the number of the last event that it includes."""
        with self._data:
            return self.stream.number, self._everything()

    def sample(self) -> None:
        """Look once, and publish what has changed."""
        sections, _ = self._section_tail.poll(), self._heartbeats.read()
        with self._data:
            before = self._run
            self._take_readings()
            begun = self._run is not before
            self._early += sections
            own = self._run.add_sections(self._early) if self._run else []
            if self._run:
                self._early.clear()
            state, now = self._look(), time.monotonic()
            if not (begun or own or state != self._state or now - self._published_at >= IDLE_S):
                return
            self._state, self._published_at = state, now
            if begun:
                self.stream.publish("hello", self._everything())
            else:
                self.stream.publish("sample", self._moment(own))

    def _take_readings(self) -> None:
        """Take what Redis has told since the last sample; nothing else takes it."""
        while not self._readings.empty():
            reading = self._readings.get()
            if self._run is None or self._run.generation != reading.generation:
                self._run = self._begin(reading)
            self._run.snapshot = reading.snapshot
            self._run.add_orders(reading.new)

    def _begin(self, reading: LedgerReading) -> SaleRun:
        """A run for this reading; the run before it is over."""
        before = self._run
        run = SaleRun(reading.generation, reading.snapshot, slack_ns=0 if before else OPENING_NS)
        self._heartbeats.begin(run.began_ns)
        if before is not None:
            run.add_sections(before.end(run.began_ns, reading.ended))
            if reading.ended is not None and before.guard is not None:
                self._ended.pop(before.guard, None)
                self._ended[before.guard] = before
        return run

    def _look(self) -> dict[str, Any]:
        """The state of everything, without the rows that are only ever added."""
        queue, ledger = self._queue.latest, self._ledger.latest
        beats = self._heartbeats
        instances = self._instances.look(beats.living, since_ns=self._run.began_ns if self._run else 0)
        if self._run is not None:
            waits = {each["name"] for each in instances if each["state"] in MAY_GO_ON}
            dead = [beat for beat in beats.stale if beat.instance not in waits]
            lost = sum(beat.unanswered for beat in dead if beat.at >= self._run.began_ns)
            in_hand = sum(beat.unanswered for beat in [*beats.living, *beats.stale] if beat not in dead)
            self._run.answered(beats.outcomes, in_hand=in_hand, lost=lost)
        return {
            "unavailable": {"redis": ledger.error, "etcd": queue.error},
            "sale": self._run.summary() if self._run else None,
            "queue": queue.value,
            "instances": instances,
            "rates": beats.per_second(),
            **self._look_at_locust(),
        }

    def _look_at_locust(self) -> dict[str, Any]:
        """Locust's state and notice, `None` before it was asked; and the buyers that come."""
        generation = self._run.generation if self._run else None
        status, error = self._locust.latest.value, self._locust.latest.error
        arrival = self._arrival.look(status, generation) if self._arrival else None
        if self._arrival and not self._arrival.lasts:
            self._arrival = None
        self._locust.every_s = ARRIVING_EVERY_S if arrival else LOCUST_EVERY_S
        if status is None:
            return {"locust": {"state": "away", "notice": ""} if error else None, "arrival": arrival}
        state = "running" if self._arrival and not status.is_running else status.state
        return {"locust": {"state": state, "notice": status.notice}, "arrival": arrival}

    def _moment(self, sections: Iterable[LoggedSection]) -> dict[str, Any]:
        """The last state, the time in the run, and these of its critical sections."""
        now_ms, rows = (self._run.ms(now_ns()), self._run.rows(sections)) if self._run else (None, [])
        return {**self._state, "now_ms": now_ms, "sections": rows}

    def _everything(self) -> dict[str, Any]:
        sections = self._run.sections.values() if self._run else ()
        return {**self._moment(sections), "ended": [each.summary() for each in self._ended.values()]}
