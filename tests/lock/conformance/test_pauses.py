"""Conformance, case o: a holder that is paused past its lease goes on writing, and only the fence stops it.

After Jepsen's test of etcd's locks, which lost about 18 % of the acknowledged updates (jepsen.io/analyses/etcd-3.4.3).
"""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from loadtest.stack.servers import Etcd, Redis
from lock import Client, Mutex, Session
from tests.lock.conformance.counters import Counters, Values
from tests.lock.conformance.pause_worker import TTL_S
from tests.support.lock import ROOT, WAIT_S, Script, keys
from tests.support.waiting import freeze, wait_until

WORKERS = 5
PAUSE_S = TTL_S + 1.5  # etcd looks for leases that are over every half a second


@pytest.fixture
def counters(redis_server: Redis, name: str) -> Iterator[Counters]:
    """The plain and the fenced counter, both at 0."""
    counters = Counters(redis_server.url, name)
    yield counters
    counters.close()


def test_o_a_pause_between_read_and_write(
    etcd: Etcd, redis_server: Redis, client: Client, session: Session, counters: Counters, name: str
) -> None:
    """Three others increment while the holder is frozen; its late write takes that back, but not past the fence."""
    code = f"""
from tests.lock.conformance.counters import Counters, Values
counters = Counters({redis_server.url!r}, {name!r})
hold = mutex.acquire(timeout=20)
found = counters.read(hold.token)
say("read")
hear()
say(*counters.write(hold.token, Values(found.fenced + 1, found.plain + 1)))
os._exit(0)
"""
    with Script(etcd.endpoint, name, code, ttl=TTL_S) as holder:
        assert holder.says() == "read"
        freeze(holder.process)
        for _ in range(3):
            with Mutex(session, name).acquire(timeout=WAIT_S) as hold:
                found = counters.read(hold.token)
                assert found is not None
                assert counters.write(hold.token, Values(found.fenced + 1, found.plain + 1)) == (1, 1)
        holder.process.send_signal(signal.SIGCONT)
        holder.tell()
        assert holder.says() == "0 1"  # the fence has refused it
    assert counters.show() == Values(fenced=3, plain=1)
    assert keys(client, name) == []


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_o_five_workers_and_pauses_for_a_minute(
    etcd: Etcd,
    redis_server: Redis,
    client: Client,
    session: Session,
    counters: Counters,
    name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The plain counter loses acknowledged updates, and this shows how many; the fenced one loses none."""
    with ExitStack() as running:
        workers = [running.enter_context(Worker(etcd, redis_server, name)) for _ in range(WORKERS)]
        wait_until(lambda: counters.show().fenced > 0, timeout=WAIT_S)
        _disturb(workers, Mutex(session, name), seconds=60.0)
        told = [worker.stop() for worker in workers]
    acknowledged = Values(*map(sum, zip(*told, strict=True)))
    lost = [told - stored for told, stored in zip(acknowledged, counters.show(), strict=True)]
    with capsys.disabled():
        for which, total, missing in zip(Values._fields, acknowledged, lost, strict=True):
            print(f"\n  {which}: {missing} of {total} acknowledged updates lost ({missing / total:.1%})", end="")
    assert Values(*lost).fenced == 0
    assert Values(*lost).plain > 0


class Worker:
    """One process of `pause_worker`."""

    def __init__(self, etcd: Etcd, redis_server: Redis, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.lock.conformance.pause_worker", etcd.endpoint, redis_server.url, name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def stop(self) -> Values:
        """Have it end; how many increments were acknowledged to it."""
        output, _ = self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == 0
        return Values(*json.loads(output))

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.process.kill()
        self.process.communicate()


def _disturb(workers: list[Worker], mutex: Mutex, *, seconds: float) -> None:
    """Pause one worker after the other: in turn the one that holds, and any."""
    choose, end = random.Random(1), time.monotonic() + seconds
    for by_chance in itertools.cycle([False, True]):
        if time.monotonic() >= end:
            return
        worker = choose.choice(workers) if by_chance else _holder(workers, mutex)
        freeze(worker.process)
        time.sleep(PAUSE_S)
        worker.process.send_signal(signal.SIGCONT)
        time.sleep(choose.uniform(0.2, 1.5))


def _holder(workers: list[Worker], mutex: Mutex) -> Worker:
    """The worker that holds just now."""
    while True:
        for contender in mutex.contenders()[:1]:
            for worker in workers:
                if f"pid {worker.process.pid}," in contender.owner:
                    return worker
