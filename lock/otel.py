"""Waiting and holding as OpenTelemetry shows them; needs ``pip install 'etcd-lock[opentelemetry]'``.

>>> from lock.otel import TracedMutex
>>> with TracedMutex(session, "flash-sale/stock").acquire(timeout=5) as hold:
...     write_with(hold.token)

A wait is a span ``lock.wait``, a hold a span ``lock.hold``; both are children of the span that was current when the
wait began. The histograms ``lock.wait.duration`` and ``lock.hold.duration`` are in seconds. They carry the outcome and
not the name, of which there may be one for each user.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.metrics import Histogram, MeterProvider, get_meter
from opentelemetry.trace import Span, Status, StatusCode, TracerProvider, get_tracer

from lock.recipes.hold import Hold
from lock.recipes.queued_lock import QueuedLock
from lock.session.session import Session

SCOPE = "etcd-lock"


class TracedHold(Hold):
    """A hold with a span, which ends when the hold is released; one that turns out to be lost then has the error."""

    _measured: tuple[Span, Histogram, float]

    def _release(self, owner: object, **options: Any) -> None:
        self._check_held()
        span, seconds, began = self._measured
        with outcome_of(span, seconds, began) as told:
            super()._release(owner, **options)
            told["lock.outcome"] = "released"


class TracedMutex(QueuedLock[TracedHold]):
    """A `Mutex` whose waits and holds are spans and are measured.

    Args:
        session, name, max_hold: as for `Mutex`, which also says what is raised.
        tracer_provider, meter_provider: None for the global ones.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        *,
        max_hold: float | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        super().__init__(session, name, TracedHold, max_hold=max_hold)
        meter = get_meter(SCOPE, meter_provider=meter_provider)
        self._tracer = get_tracer(SCOPE, tracer_provider=tracer_provider)
        self._waits = meter.create_histogram("lock.wait.duration", "s", "From the call to its hold, or to its error.")
        self._holds = meter.create_histogram("lock.hold.duration", "s", "From the hold to the end of its release.")

    def _queue(self, *args: Any, **options: Any) -> TracedHold | None:
        span = self._tracer.start_span("lock.wait", attributes={"lock.name": self.name})
        with outcome_of(span, self._waits, time.monotonic()) as told:
            hold = super()._queue(*args, **options)
            told["lock.outcome"] = "taken" if hold is None else "held"
        if hold is not None:
            try:
                attributes: dict[str, str | int] = {"lock.name": self.name, "lock.token": hold.token}
                held = self._tracer.start_span("lock.hold", attributes=attributes)
                hold._measured = held, self._holds, time.monotonic()
            except BaseException:  # an interrupt keeps it from its caller
                hold._give_up()
                raise
        return hold


@contextmanager
def outcome_of(span: Span, seconds: Histogram, began: float) -> Iterator[dict[str, str]]:
    """End a span and record its time, `began` by `time.monotonic`, with what is told inside or the error's name."""
    told: dict[str, str] = {}
    try:
        yield told
    except BaseException as error:
        told["lock.outcome"] = type(error).__name__
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, str(error)))
        raise
    finally:
        seconds.record(time.monotonic() - began, told)
        span.set_attributes(told)
        span.end()
