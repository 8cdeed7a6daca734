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
from lock import Client, Mutex, ReadWriteLock, Session
from tests.lock.conformance.pair import TTL_S, Pair
from tests.support.lock import WAIT_S, Script, keys
from tests.support.waiting import freeze, wait_until

PAUSE_S = TTL_S + 1.5  # etcd looks for leases that are over every half a second
HOLDER = """
hold = getattr(ReadWriteLock(session, mutex.name), {!r}).acquire(timeout=20)
say(hold.token)
hear()
say("woke up")
hear()
"""
WORKER = """
from tests.lock.conformance.pair import work
stopping = threading.Event()
threading.Thread(target=lambda: (hear(), stopping.set()), daemon=True).start()
say(*work(client, {!r}, {!r}, stopping))
"""


@pytest.fixture
def pair(redis_server: Redis) -> Iterator[Pair]:
    """The pair, with 1 everywhere."""
    pair = Pair(redis_server.url)
    pair.reset()
    yield pair
    pair.redis.flushdb()
    pair.redis.close()


def test_o_paused_writers_and_readers(etcd: Etcd, client: Client, session: Session, pair: Pair, name: str) -> None:
    """A writer freezes between two writes, a reader between two reads, until their leases are over.

    The plain pair is torn, the fenced one never; a writer comes by, and the second read is refused and mixes nothing.
    """
    written, read = ReadWriteLock(session, f"{name}/written"), ReadWriteLock(session, f"{name}/read")
    with (
        Script(etcd.endpoint, f"{name}/written", HOLDER.format("write"), ttl=TTL_S) as writer,
        Script(etcd.endpoint, f"{name}/read", HOLDER.format("read"), ttl=TTL_S) as reader,
    ):
        late_writer, late_reader = int(writer.says()), int(reader.says())
        pair.write_plain(a=2)  # the half that the writer has done when it freezes
        freeze(writer.process)
        freeze(reader.process)
        with written.read.acquire(timeout=WAIT_S) as hold:
            assert hold.token > late_writer
            assert pair.plain() == [2, 1]
            assert pair.read(hold.token) == [1, 1]
            writer.process.send_signal(signal.SIGCONT)
            writer.tell()
            assert writer.says() == "woke up"
            assert not pair.write(late_writer, 2, 2)  # what it goes on with, while the reader still reads
            assert pair.read(hold.token) == [1, 1]
        with read.write.acquire(timeout=WAIT_S) as hold:
            assert pair.write(hold.token, 3, 3)
            reader.process.send_signal(signal.SIGCONT)
            assert pair.read(late_reader) is None
            assert pair.read(late_writer) is None
            assert pair.write(hold.token, 4, 4)  # the refused reads have disturbed nothing
    wait_until(lambda: keys(client, name) == [])


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_o_five_workers_and_pauses_for_a_minute(
    etcd: Etcd, redis_server: Redis, session: Session, pair: Pair, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plain counter loses acknowledged updates, and this shows how many; the fenced one loses none."""
    with ExitStack() as running:
        code = WORKER.format(redis_server.url, name)
        workers = [running.enter_context(Script(etcd.endpoint, name, code)) for _ in range(5)]
        wait_until(lambda: pair.plain() > [1, 1])
        _disturb(workers, Mutex(session, name), seconds=60.0)
        for worker in workers:
            worker.tell("stop")
        acknowledged = [
            sum(map(int, told)) for told in zip(*(worker.says().split() for worker in workers), strict=True)
        ]
    found = pair.read(2**60)
    assert found is not None
    stored = [found[0] - 1, pair.plain()[0] - 1]
    with capsys.disabled():
        for which, total, there in zip(("fenced", "plain"), acknowledged, stored, strict=True):
            print(f"\n  {which}: {total - there} of {total} acknowledged updates lost", end="")
    assert acknowledged[0] == stored[0]
    assert acknowledged[1] > stored[1]


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
