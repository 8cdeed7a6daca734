"""What tests of the lock do again and again."""

from __future__ import annotations

import asyncio
import functools
import queue
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ParamSpec

from loadtest.stack.servers import Etcd
from lock import Client, EtcdError, Hold, Mutex, Session, Turn
from lock.core.messages import Delete
from lock.etcd.watches import Update
from lock.model import Event, KeyValue
from lock.runtime.clock import now
from tests.support.waiting import in_thread, wait_until

ROOT = Path(__file__).parents[2]
P = ParamSpec("P")

WAIT_S = 20.0  # far more than anything here takes
AT_ONCE_S = 4.0  # what "at once" may take on a busy machine: less than an audit or a usual TTL could explain


def in_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs a test that is a coroutine, in asyncio's debug mode."""

    @functools.wraps(test)
    def run(*args: P.args, **options: P.kwargs) -> None:
        asyncio.run(test(*args, **options), debug=True)

    return run


class Changes:
    """What a watch of a prefix tells."""

    def __init__(self, client: Client, prefix: str) -> None:
        self._watches = client.watches
        self._updates: queue.SimpleQueue[Update] = queue.SimpleQueue()
        self._watch = client.watches.add(prefix, self._updates.put)

    def next(self, timeout: float = WAIT_S) -> list[Event]:
        """The next batch, of which the first one is empty; raises an error that is told."""
        update = self._updates.get(timeout=timeout)
        if isinstance(update, EtcdError):
            raise update
        return update

    def close(self) -> None:
        self._watches.remove(self._watch)
        self._watches.check(is_done=True)


def keys(client: Client, name: str) -> list[str]:
    """The keys of a name's queue in etcd, holder first."""
    return [kv.key for kv in client.get_prefix(f"{name}/").keys]


def await_followed(session: Session, name: str) -> None:
    """Until a session that waits for a name is told of the key before its own, or of all that are there."""

    def is_followed() -> bool:
        with engine.lock:  # the view may be taken away by another thread between two looks at it
            queue, watch = engine.core.queues.get(f"{name}/"), engine.worker._watches.get(f"{name}/")
            if queue is None or watch is None or watch.id is None:
                return False
            if queue.position is not None:
                return queue.position.before is not None and queue.position.due > now()
            return queue.view is not None and queue.is_listed and len(queue.view) > 1

    engine = session._engine
    wait_until(is_followed, timeout=WAIT_S)


def is_contended(hold: Hold | Turn) -> bool:
    """As far as its session knows, which follows the queue from now on."""
    return bool(hold._engine.apply(hold._engine.core.contended, hold._ticket))


def await_keys(client: Client, name: str, number: int) -> None:
    """Until so many keys are in a name's queue."""
    wait_until(lambda: len(keys(client, name)) == number, timeout=WAIT_S)


def put(client: Client, key: str, value: bytes = b"", lease_id: int = 0) -> KeyValue:
    """A key made by hand, without a lease unless told otherwise."""
    kv = client.create(key, value, lease_id)
    assert kv is not None
    return kv


def delete(client: Client, key: str, create_revision: int | None = None) -> bool:
    """Delete a key by hand, as etcdctl does, or one that was created at this revision; whether it was there."""
    return client.call(client.requests.delete_keys(Delete(((key, create_revision),), (), 0)), WAIT_S).there == [True]


def queue_up(observer: Client, mutex: Mutex, *, timeout: float | None = WAIT_S) -> Future[Hold]:
    """A wait in its own thread; returns once its key is in etcd, as `observer` sees it."""
    before = len(keys(observer, mutex.name))
    waiting = in_thread(mutex.acquire, timeout=timeout)
    wait_until(lambda: waiting.done() or len(keys(observer, mutex.name)) > before)
    return waiting


def lock_threads() -> list[str]:
    """The names of the threads of clients and sessions that run in this process."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("lock-") and name != "lock-call"]  # which are kept


def shell(script: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What a POSIX shell makes of a script, which ends at the first failure."""
    return subprocess.run(["sh", "-eu"], input=script, env=env, capture_output=True, text=True, timeout=50)


def metric(etcd: Etcd, name: str) -> float:
    with urllib.request.urlopen(f"http://{etcd.endpoint}/metrics", timeout=5) as response:
        lines = response.read().decode().split("\n")
    return float(next(line.rpartition(" ")[2] for line in lines if line.startswith(f"{name} ")))


def await_rest(etcd: Etcd) -> None:
    """Wait until etcd, which commits to its disk every 0.1 s, has done so twice since its last write.

    Then it can be killed. An etcd before 3.5.3, as that of the wheel, may otherwise skip a write for good, and disagree
    with the other members from then on (etcd issue 13766).
    """
    applied, since = -1.0, time.monotonic()
    while time.monotonic() < since + 0.25:
        found = metric(etcd, "etcd_server_proposals_applied_total")
        if found != applied:
            applied, since = found, time.monotonic()
        time.sleep(0.02)


class Script:
    """Python code in its own process, line by line in conversation with the test; killed at the end.

    The code starts with `client`, `session` and `mutex` made for the endpoint, TTL and name given; what it prints is
    read by `says`, and `tell` is a line on its standard input.
    """

    def __init__(self, endpoint: str, name: str, code: str, *, ttl: int = 10) -> None:
        setup = (
            "import os, signal, sys, threading, time\n"
            "from lock import *\n"
            f"client = connect({endpoint!r})\n"
            f"session = Session(client, ttl={ttl}, name='script')\n"
            f"mutex = Mutex(session, {name!r})\n"
            "def say(*words): print(*words, flush=True)\n"
            "def hear(): return sys.stdin.readline().strip()\n"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error::ResourceWarning", "-c", setup + code],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def says(self) -> str:
        """The next line that it prints; "" once it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def tell(self, line: str = "go on") -> None:
        """A line for `hear()`."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def ends(self) -> tuple[int, str]:
        errors = self.process.communicate(timeout=WAIT_S)[1]
        return self.process.returncode, errors

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.process.kill()
        self.process.communicate()
