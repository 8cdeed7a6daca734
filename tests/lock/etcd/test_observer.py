"""The observer: told of every answer, and whatever it does, no lock suffers."""

from __future__ import annotations

import threading
from collections import defaultdict

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


def test_an_observer_that_fails_ends_nothing(
    etcd: Etcd, client: Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Callers get etcd's answers, and the log the errors; leases are kept alive, queues followed and keys deleted."""
    observer = Failing()
    with connect(etcd.endpoint, observer=observer) as observed, Session(observed, ttl=60) as session:
        first, *others = (Mutex(session, f"{name}/{number}").acquire(timeout=WAIT_S) for number in range(3))
        for number in range(1, 4):
            assert observed.status()
            assert caplog.text.count("a bug in an observer") >= number
            session.lease.renew_soon()
            wait_until(lambda: len(observer.raised["lock-lease", "LeaseKeepAlive"]) >= number)  # noqa: B023
        for hold in (first, *others):
            waiting = queue_up(client, Mutex(session, hold.name))
            hold.release()
            waiting.result(WAIT_S).release()
        assert keys(client, name) == []
    for told in (("lock-lease", "LeaseKeepAlive"), ("lock-queue", "Watch"), ("lock-janitor", "Txn")):
        assert set(observer.raised[told]) == set(FAILURES), told
