"""The implementations under test, what is known to fail with etcdctl, and processes that contend for a lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from loadtest.stack.servers import Etcd, EtcdCluster
from lock import Client, Session, connect
from tests.lock.conformance.implementations import ETCDCTL, OURS, Contender, Implementation
from tests.lock.conformance.recipes import IDS, USES, Face, Loop, Make
from tests.support.lock import WAIT_S, keys
from tests.support.waiting import wait_until

Contend = Callable[..., Contender]

# Each of these has to fail, with an assertion, or the suite could not tell a lock that does it from one that does not.
# Most fail by waiting in vain; those wait in `make test-slow`.
KNOWN_FAILURES = {
    "test_e_a_waiter_whose_lease_is_gone_is_told": "waits on behind the others (etcd issue 19597)",
    "test_f_a_wait_has_an_end": "takes --command-timeout, and waits for ever",
    "test_i_without_a_quorum_the_child_is_ended": "the child runs on after the lock is lost",
    "test_m_a_killed_keeper_takes_its_child_along": "the child runs on when etcdctl is killed",
    "test_m_a_signal_reaches_the_child": "swallows the signal until the child is done",
    "test_p_nothing_is_left": "leaves its lease to expire",
}
FAIL_QUICKLY = {"test_p_nothing_is_left"}


@pytest.hookimpl(tryfirst=True)  # before slow tests are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name = getattr(item, "originalname", "")
        if name in KNOWN_FAILURES and item.name.endswith(f"[{ETCDCTL.name}]"):
            reason = f"etcdctl {KNOWN_FAILURES[name]}"
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError))
            if name not in FAIL_QUICKLY:
                item.add_marker(pytest.mark.slow)


@pytest.fixture(params=[OURS, ETCDCTL], ids=lambda each: each.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    implementation: Implementation = request.param
    return implementation


@pytest.fixture
def start(etcd: Etcd) -> Iterator[Contend]:
    """Starts contenders, ``start(IMPLEMENTATION, NAME, *CHILD, endpoints=, ttl=, ...)``; none survives the test."""
    with ExitStack() as running:

        def start(which: Implementation, *args: str, endpoints: str = etcd.endpoint, **options: Any) -> Contender:
            return running.enter_context(Contender(which.command(*args, **options), endpoints))

        yield start


@pytest.fixture
def queue(start: Contend, client: Client) -> Contend:
    """Starts a contender as `start` does, and returns it once its key is in etcd, or it has given up."""

    def queue(which: Implementation, name: str, *child: str, observer: Client = client, **options: Any) -> Contender:
        before = len(keys(observer, name))
        contender = start(which, name, *child, **options)
        wait_until(lambda: contender.has_ended(within=0) or len(keys(observer, name)) > before, timeout=WAIT_S)
        return contender

    return queue


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture(params=USES, ids=IDS)
def make(request: pytest.FixtureRequest, name: str) -> Make:
    """Makes each recipe in turn for a session, on the name of the test unless told otherwise."""
    recipe, tasks = request.param
    loop = request.getfixturevalue("loop") if tasks else None
    return lambda session, at=name: Face(recipe, tasks, session, at, loop)


@pytest.fixture
def face(make: Make, session: Session) -> Face:
    return make(session)


@pytest.fixture
def theirs(face: Face, stranger: Session) -> Face:
    """What excludes it, in another process."""
    return face.rival(stranger)


@pytest.fixture
def observer(cluster: EtcdCluster) -> Iterator[Client]:
    """A client of the three members that looks on."""
    with connect(cluster.endpoints) as client:
        yield client
