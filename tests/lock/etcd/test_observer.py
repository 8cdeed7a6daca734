"""The observer: told of every answer, and whatever it does, no lock suffers."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from loadtest.stack.servers import Etcd
from lock import Client, Mutex, Session, connect
from tests.support.lock import AT_ONCE_S, WAIT_S, keys, queue_up


class Failing:
    """An observer that raises at every answer, and knows which threads it has told so."""

    def __init__(self, failure: type[Exception]) -> None:
        self.calls: list[tuple[str, str]] = []
        self._failure = failure

    def __call__(self, call: str, *_: object) -> None:
        self.calls.append((threading.current_thread().name.partition(" ")[0], call))
        raise self._failure("a bug in an observer")


@pytest.fixture(params=[KeyError, ValueError])
def observer(request: pytest.FixtureRequest) -> Failing:
    """One that always fails, also with what gRPC says of a closed channel."""
    return Failing(request.param)


@pytest.fixture
def observed(etcd: Etcd, observer: Failing) -> Iterator[Client]:
    """A client with that observer."""
    with connect(etcd.endpoint, observer=observer) as client:
        yield client


def test_an_observer_that_fails_breaks_no_call(observed: Client, caplog: pytest.LogCaptureFixture) -> None:
    """The caller gets etcd's answer; the log gets the error."""
    assert observed.status()
    assert "a bug in an observer" in caplog.text


def test_an_observer_that_fails_ends_no_thread(observed: Client, client: Client, observer: Failing) -> None:
    """The lease is kept alive, the queue followed and its keys are deleted, however often it is told."""
    with Session(observed, ttl=1) as session:
        hold = Mutex(session, "observer/fails").acquire(timeout=WAIT_S)
        assert not session.lost.wait(session.ttl + AT_ONCE_S)
        waiting = queue_up(client, Mutex(session, hold.name))
        hold.release()
        waiting.result(AT_ONCE_S).release()
        assert keys(client, hold.name) == []
    told = {("lock-lease", "LeaseKeepAlive"), ("lock-queue", "Watch"), ("lock-janitor", "Txn")}
    assert told <= set(observer.calls)
