"""Conformance, case o: a holder that is paused past its lease goes on writing, and only the fence stops it.

After Jepsen's test of etcd's locks, which lost about 18 % of the acknowledged updates (jepsen.io/analyses/etcd-3.4.3).
"""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from loadtest.stack.servers import Etcd, Redis
from lock import Client, Mutex, Session
from tests.lock.conformance.counters import TTL_S, Counters, Values
from tests.support.lock import WAIT_S, Script
from tests.support.waiting import freeze, wait_until

WORKERS = 5
WORKER = """
from tests.lock.conformance.counters import work
stopping = threading.Event()
threading.Thread(target=lambda: (hear(), stopping.set()), daemon=True).start()
say(*work(client, {!r}, {!r}, stopping))
"""
PAUSE_S = TTL_S + 1.5  # etcd looks for leases that are over every half a second


@pytest.fixture
def counters(redis_server: Redis, name: str) -> Iterator[Counters]:
    """The plain and the fenced counter, both at 0."""
    counters = Counters(redis_server.url, name)
    yield counters
    counters.close()


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
        code = WORKER.format(redis_server.url, name)
        workers = [running.enter_context(Script(etcd.endpoint, name, code)) for _ in range(WORKERS)]
        wait_until(lambda: counters.show().fenced > 0, timeout=WAIT_S)
        _disturb(workers, Mutex(session, name), seconds=60.0)
        for worker in workers:
            worker.tell("stop")
        told = [Values(*map(int, worker.says().split())) for worker in workers]
    acknowledged = Values(*map(sum, zip(*told, strict=True)))
    lost = [told - stored for told, stored in zip(acknowledged, counters.show(), strict=True)]
    with capsys.disabled():
        for which, total, missing in zip(Values._fields, acknowledged, lost, strict=True):
            print(f"\n  {which}: {missing} of {total} acknowledged updates lost ({missing / total:.1%})", end="")
    assert Values(*lost).fenced == 0
    assert Values(*lost).plain > 0


def _disturb(workers: list[Script], mutex: Mutex, *, seconds: float) -> None:
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


def _holder(workers: list[Script], mutex: Mutex) -> Script:
    """The worker that holds just now."""
    while True:
        for contender in mutex.contenders()[:1]:
            for worker in workers:
                if f"pid {worker.process.pid}," in contender.owner:
                    return worker
