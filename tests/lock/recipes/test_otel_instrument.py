"""`lock.otel.instrument`: what OpenTelemetry is told of all locks of a session, by its own SDK."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from lock import (
    Client,
    CohortMutex,
    LockLost,
    LockTimeout,
    MultiLock,
    Mutex,
    ReadWriteLock,
    ReentrantMutex,
    Session,
    aio,
    otel,
)
from lock.otel import instrument
from tests.lock.conformance.recipes import IDS, USES, Face, Loop, Recipe
from tests.support.lock import WAIT_S, await_keys, in_a_loop, queue_up
from tests.support.waiting import assert_raises, wait_until


class Seen:
    """What one session measures."""

    def __init__(self, session: Session, **options: Any) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader])
        instrument(session, meter_provider=self.provider, **options)

    def __call__(self, metric: str) -> dict[str, int]:
        """Of a counter the value, of a histogram the number of measurements, by outcome or cause; no zeros."""
        data = self._reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics if data and data.resource_metrics else []
        [points] = [each.data.data_points for each in metrics if each.name == metric] or [[]]
        values = {" ".join(map(str, (point.attributes or {}).values())): point for point in points}
        numbers = {key: getattr(point, "count", None) or getattr(point, "value", 0) for key, point in values.items()}
        return {key: number for key, number in numbers.items() if number}


@pytest.fixture(autouse=True, scope="module")
def recipes_as_before() -> Iterator[None]:
    """Other tests count the calls of a plain lock."""
    methods = [(kind, name, vars(kind)[name]) for kind, name, _ in otel._CALLS]
    yield
    for kind, name, method in methods:
        setattr(kind, name, method)
    otel._observe_recipes.cache_clear()


@pytest.fixture
def seen(session: Session) -> Seen:
    """The session is measured."""
    return Seen(session)


@pytest.mark.parametrize(("recipe", "tasks"), USES, ids=IDS)
def test_every_recipe_is_measured(session: Session, name: str, recipe: Recipe, tasks: bool) -> None:
    """Objects made before too, for threads and tasks: what is held now, and how long was waited and held."""
    loop = Loop()
    face = Face(recipe, tasks, session, name, loop)
    seen = Seen(session)
    for number in (1, 2):
        with face.acquire(timeout=WAIT_S):
            assert seen("lock.hold.count") == {"": 1}
            assert seen("lock.waiter.count") == {}
        assert seen("lock.hold.count") == {}
        assert seen("lock.wait.duration") == {"held": number}
        assert seen("lock.hold.duration") == {"released": number}
    assert seen("lock.losses") == {}
    loop.close()


def test_what_waits_is_counted(client: Client, session: Session, seen: Seen, theirs: Mutex, name: str) -> None:
    """Threads in the queue of etcd, and those in line inside a process; and why there is no hold in the end.

    That is the error by its name, not one that the caller handles meanwhile; a try that finds it taken is no error.
    """
    cohort = CohortMutex(session, f"{name}-cohort")
    with theirs.acquire(timeout=WAIT_S), cohort.acquire(timeout=WAIT_S):
        waiting = [queue_up(client, Mutex(session, name)) for _ in range(2)]
        assert seen("lock.waiter.count") == {"": 2}
        with pytest.raises(LockTimeout):
            cohort.acquire(timeout=0.01)
        try:
            raise KeyError
        except KeyError:
            for lock in (Mutex(session, name), MultiLock(session, [name]), cohort):
                assert lock.try_acquire() is None
    for each in waiting:
        each.result(WAIT_S).release()
    assert seen("lock.waiter.count") == {}
    assert seen("lock.wait.duration") == {"held": 3, "LockTimeout": 1, "taken": 3}


@in_a_loop
async def test_a_cancelled_task_waits_no_more(client: Client, session: Session, theirs: Mutex, name: str) -> None:
    """It counts as `LockCancelled`, as a thread's wait that is cancelled."""
    seen = Seen(session)
    with theirs.acquire():
        task = asyncio.ensure_future(aio.Mutex(session, name).acquire(timeout=WAIT_S).__aenter__())
        await asyncio.to_thread(await_keys, client, name, 2)
        assert seen("lock.waiter.count") == {"": 1}
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(wait_until, lambda: seen("lock.waiter.count") == {})
    assert seen("lock.wait.duration")["LockCancelled"] == 1


def test_losses_are_counted_by_their_cause(client: Client, session: Session, seen: Seen, name: str) -> None:
    """Each once, at the loss and not at the release; such a hold is not held any more."""
    expiring = Mutex(session, f"{name}-1", max_hold=0.01).acquire(timeout=WAIT_S)
    both = MultiLock(session, [f"{name}-2", f"{name}-3"]).acquire(timeout=WAIT_S)
    wait_until(lambda: seen("lock.losses") == {"HoldExpired": 1})
    assert seen("lock.hold.count") == {"": 2}
    client.revoke(session.lease_id)
    wait_until(lambda: seen("lock.losses") == {"HoldExpired": 1, "SessionLost": 2})
    for held in (expiring, both):
        with pytest.raises(LockLost):
            held.release()
    assert seen("lock.hold.duration") == seen("lock.losses") == {"HoldExpired": 1, "SessionLost": 2}
    assert seen("lock.hold.count") == {}


def test_one_hold_is_counted_once(session: Session, seen: Seen, name: str) -> None:
    """A thread that enters again has one hold; a writer that goes on as a reader ends one and begins another."""
    mutex = ReentrantMutex(session, f"{name}-1")
    with mutex.acquire(timeout=WAIT_S), mutex.acquire(timeout=WAIT_S):
        assert seen("lock.hold.count") == {"": 1}
    writer = ReadWriteLock(session, f"{name}-2").write.acquire(timeout=WAIT_S)
    with writer.downgrade():
        assert seen("lock.hold.count") == {"": 1}
    assert (seen("lock.hold.count"), seen("lock.hold.duration")) == ({}, {"released": 3})


def test_a_slow_hold_is_logged_once(session: Session, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """With the line that acquired it, while it is held; the next one in line is judged by its own time."""
    Seen(session, slow_hold=0.05)
    with Mutex(session, name).acquire(timeout=WAIT_S), Mutex(session, f"{name}-2").acquire(timeout=WAIT_S):
        wait_until(lambda: caplog.text.count("is held for more than 0.05 s") == 2)
        with Mutex(session, f"{name}-3").acquire(timeout=WAIT_S) as hold:
            wait_until(lambda: hold.key in caplog.text)
    assert caplog.text.count("is held for more than 0.05 s") == 3
    assert len(re.findall(rf"lock '{name}', acquired at .*test_otel_instrument.py:\d+, is held", caplog.text)) == 1


def test_a_session_is_measured_once(session: Session, seen: Seen) -> None:
    """A second time is a `ValueError`; so is a limit that is none, and a client is no session."""
    assert_raises(ValueError, instrument, session, match="is measured already")
    assert_raises(ValueError, instrument, session, slow_hold=0, match="slow_hold")
    assert_raises(TypeError, instrument, session.client, match="takes a Session")
