"""What OpenTelemetry is told of waits and holds, by its own SDK."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from lock import Client, LockLost, LockTimeout, Mutex, NotHeld, Session
from lock.otel import TracedMutex
from tests.support.lock import delete
from tests.support.waiting import wait_until


class Seen:
    """Spans and measurements of one traced mutex."""

    def __init__(self, session: Session, name: str) -> None:
        self.exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self._tracers, meters = TracerProvider(), MeterProvider([self._reader])
        self._tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.mutex = TracedMutex(session, name, tracer_provider=self._tracers, meter_provider=meters)
        self.tracer = self._tracers.get_tracer("test")

    def spans(self) -> list[tuple[str, object]]:
        """Those that have ended: name and outcome."""
        return [(each.name, (each.attributes or {}).get("lock.outcome")) for each in self.exporter.get_finished_spans()]

    def counts(self) -> dict[str, dict[Any, int]]:
        """Of each histogram the number of measurements by outcome."""
        data = self._reader.get_metrics_data()
        assert data is not None
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        return {
            each.name: {(point.attributes or {})["lock.outcome"]: point.count for point in each.data.data_points}  # type: ignore[union-attr]
            for each in metrics
        }


@pytest.fixture
def seen(session: Session, name: str) -> Seen:
    """A traced mutex."""
    return Seen(session, name)


def test_a_wait_and_a_hold_are_spans_of_the_caller(seen: Seen) -> None:
    """Both are children of the span that was current, the hold has its token, and both are measured."""
    with seen.tracer.start_as_current_span("buy") as parent, seen.mutex.acquire(timeout=5) as hold:
        assert seen.spans() == [("lock.wait", "held")]
    with pytest.raises(NotHeld):  # which is no hold, and not measured
        hold.release()
    assert seen.spans()[:2] == [("lock.wait", "held"), ("lock.hold", "released")]
    wait, held, _ = seen.exporter.get_finished_spans()
    assert {each.parent and each.parent.span_id for each in (wait, held)} == {parent.get_span_context().span_id}
    assert (held.attributes or {})["lock.token"] == hold.token
    assert seen.counts() == {"lock.wait.duration": {"held": 1}, "lock.hold.duration": {"released": 1}}


def test_what_is_not_held_says_why(seen: Seen, theirs: Mutex) -> None:
    """A wait that times out is an error by its name, a try that finds it taken is none, and nothing is held."""
    with theirs.acquire():
        with pytest.raises(LockTimeout):
            seen.mutex.acquire(timeout=0.01)
        assert seen.mutex.try_acquire() is None
    assert seen.spans() == [("lock.wait", "LockTimeout"), ("lock.wait", "taken")]
    codes = [each.status.status_code for each in seen.exporter.get_finished_spans()]
    assert codes == [StatusCode.ERROR, StatusCode.UNSET]


def test_a_lost_hold_ends_with_its_error(seen: Seen, client: Client) -> None:
    """The release of a hold whose key was deleted raises as ever, and its span has the error."""
    hold = seen.mutex.acquire(timeout=5)
    delete(client, hold.key, hold.token)
    wait_until(hold.lost.is_set)
    with pytest.raises(LockLost):
        hold.release()
    assert seen.spans()[-1] == ("lock.hold", "LockLost")
