"""The observer: told of every answer, and whatever it does, no lock suffers."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator

import pytest

from loadtest.stack.servers import Etcd
from lock import Client, Mutex, Session, connect
from tests.support.lock import WAIT_S, keys, queue_up
from tests.support.waiting import wait_until

FAILURES = (KeyError, ValueError, SystemExit)  # ValueError is also what gRPC says of a closed channel


class Failing:
    """An observer that raises at every answer, each failure in turn, and knows which thread it has told which."""

    def __init__(self) -> None:
        self.raised: dict[tuple[str, str], list[type[BaseException]]] = defaultdict(list)

    def __call__(self, call: str, *_: object) -> None:
        raised = self.raised[threading.current_thread().name.partition(" ")[0], call]
        raised.append(FAILURES[len(raised) % 3])
        raise raised[-1]("a bug in an observer")


@pytest.fixture
def observer() -> Failing:
    """One that always fails."""
    return Failing()


@pytest.fixture
def observed(etcd: Etcd, observer: Failing) -> Iterator[Client]:
    """A client with that observer."""
    with connect(etcd.endpoint, observer=observer) as client:
        yield client


def test_an_observer_that_fails_breaks_no_call(observed: Client, caplog: pytest.LogCaptureFixture) -> None:
    """The caller gets etcd's answer; the log gets the error."""
    for number in range(1, 4):
        assert observed.status()
        assert caplog.text.count("a bug in an observer") >= number


def test_an_observer_that_fails_ends_no_thread(observed: Client, client: Client, observer: Failing, name: str) -> None:
    """The lease is kept alive, queues are followed and keys are deleted, whatever it raises and however often."""
    with Session(observed, ttl=60) as session:
        first, *others = (Mutex(session, f"{name}/{number}").acquire(timeout=WAIT_S) for number in range(3))
        for number in range(1, 4):
            session.lease.renew_soon()
            wait_until(lambda: len(observer.raised["lock-lease", "LeaseKeepAlive"]) >= number)  # noqa: B023
        for hold in (first, *others):
            waiting = queue_up(client, Mutex(session, hold.name))
            hold.release()
            waiting.result(WAIT_S).release()
        assert keys(client, name) == []
    for told in (("lock-lease", "LeaseKeepAlive"), ("lock-queue", "Watch"), ("lock-janitor", "Txn")):
        assert set(observer.raised[told]) == set(FAILURES), told
