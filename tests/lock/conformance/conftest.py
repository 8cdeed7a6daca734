"""What the suite is run against: each recipe, and two commands, each of which queues for a lock in its own process.

Both commands take their endpoints from ETCDCTL_ENDPOINTS, print a line once they hold (or run a command that prints
one), and release at SIGTERM.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from loadtest.stack import binaries
from loadtest.stack.servers import Etcd, EtcdCluster
from lock import Client, Session, connect
from lock.core import reconciler
from tests.lock.conformance.recipes import IDS, USES, Face, Loop, Make
from tests.support.lock import WAIT_S, keys
from tests.support.waiting import Patch, in_thread, wait_until

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Implementation:
    name: str

    def command(self, lock: str, *child: str, ttl: int = 10, timeout: float | None = None) -> list[str]:
        """Hold `lock`, or run `child` while it is held; wait for `timeout` seconds, as far as it can be told to."""
        program = [str(binaries.etcdctl()), "lock"] if self.name == "etcdctl" else [sys.executable, "-m", "lock"]
        patience = f"--command-timeout={timeout}s" if self.name == "etcdctl" else f"--timeout={timeout}"
        given = [f"--ttl={ttl}", *([] if timeout is None else [patience])]
        return [*program, *given, lock, *(["--", *child] if child else [])]


OURS = Implementation("python -m lock")
ETCDCTL = Implementation("etcdctl")


class Contender:
    """A process that holds a lock, waits for it, or has given up; killed at the end, with its group."""

    def __init__(self, command: list[str], endpoints: str) -> None:
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "ETCDCTL_ENDPOINTS": endpoints},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._first_line: Future[str] = in_thread(self._process.stdout.readline)

    def holds(self, *, within: float = WAIT_S) -> bool:
        """Whether it holds the lock or has held it; waits for that, at most `within` seconds."""
        wait([self._first_line], within)
        return self._first_line.done() and bool(self.said)

    @property
    def said(self) -> str:
        """The first line that it, or its child, printed: the key, where it has no child."""
        return self._first_line.result().rstrip("\n")

    def has_ended(self, *, within: float) -> bool:
        """Whether it is over; waits for that, at most `within` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(within)
        return self._process.poll() is not None

    def ends(self) -> tuple[int, str]:
        assert self.has_ended(within=WAIT_S)
        assert self._process.stderr is not None
        return self._process.returncode, self._process.stderr.read()

    def release(self) -> None:
        """Have it release the lock and end."""
        self._process.terminate()
        assert self.has_ended(within=WAIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._first_line.result(WAIT_S)
        self._process.communicate()


Contend = Callable[..., Contender]

# Each of these has to fail, with an assertion, or the suite could not tell a lock that does it from one that does not.
# Most fail by waiting in vain; those wait in `make test-slow`.
KNOWN_FAILURES = {
    "test_e_a_waiter_whose_lease_is_gone_is_told": "waits on behind the others (etcd issue 19597)",
    "test_f_a_wait_has_an_end": "takes --command-timeout, and waits for ever",
    "test_i_without_a_quorum_the_child_is_ended": "the child runs on after the lock is lost",
    "test_p_nothing_is_left": "leaves its lease to expire",
}
FAIL_QUICKLY = {"test_p_nothing_is_left"}
FEW = {"mutex-threads", "cohort-threads", "multi-threads", "reader-threads", "mutex-tasks"}


@pytest.hookimpl(tryfirst=True)  # before slow tests are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The cases of cancellation, m, run over five recipes: one engine ends the waits of all.
    items[:] = [item for item in items if not item.name.startswith("test_m_") or not is_a_recipe_too_many(item)]
    for item in items:
        name = getattr(item, "originalname", "")
        if name.startswith("test_n_") and is_a_recipe_too_many(item):
            item.add_marker(pytest.mark.slow)
        if name in KNOWN_FAILURES and item.name.endswith(f"[{ETCDCTL.name}]"):
            reason = f"etcdctl {KNOWN_FAILURES[name]}"
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError))
            if name not in FAIL_QUICKLY:
                item.add_marker(pytest.mark.slow)


def is_a_recipe_too_many(item: pytest.Item) -> bool:
    recipes = {part for part in IDS if part in item.name}
    return bool(recipes) and not recipes & FEW


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: Patch) -> None:
    """A session finds what was deleted by hand at once: it looks for that every two seconds, in each of many tests."""
    monkeypatch.setattr(reconciler, "_PERIOD_S", 0.1)


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
