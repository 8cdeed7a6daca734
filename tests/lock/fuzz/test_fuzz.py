"""The public API, called as a careless program does: at any moment, from any thread, handler and collector.

Its processes are frozen while they hold, some for longer than their leases last, and killed.
"""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from loadtest.stack.servers import Etcd
from lock import Client, EtcdUnavailable, MultiLock, connect
from lock.session.session import Session
from tests.support.fuzzing import CALL_S, NAMES, TTL_S, overlaps
from tests.support.lock import ROOT, WAIT_S, keys
from tests.support.waiting import freeze, wait_until

PROCESSES = 2
PAUSE_S = 4.0  # between two blows, at most
FREEZES_S = (0.5, TTL_S - 0.5, TTL_S + 1.5)
LAST_S = 4.0  # in which all end in peace


class Careless:
    """Processes of the fuzz, and the blows that they get; the last of them is killed, too, and started anew."""

    def __init__(self, endpoint: str, client: Client, directory: Path, seed: int, seconds: float) -> None:
        self.blows: Counter[str] = Counter()
        self.spans = directory / "spans"
        self.spans.touch()
        self._endpoint = endpoint
        self._client = client
        self._errors = directory / "errors"
        self._chance = random.Random(seed)
        self._seeds = itertools.count(seed)
        self._ends = time.monotonic() + seconds
        self._running = [self._start() for _ in range(PROCESSES)]

    def _start(self) -> subprocess.Popen[str]:
        arguments = [self._endpoint, str(self._ends - time.monotonic()), str(next(self._seeds)), str(self.spans)]
        command = [sys.executable, "-W", "ignore", "-m", "tests.support.fuzzing", *arguments]
        with self._errors.open("a") as errors:
            return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors, text=True)

    def run(self) -> None:
        """Until their end; AssertionError where one of them has found a fault."""
        try:
            while not self._is_enough() and all(each.poll() is None for each in self._running):
                time.sleep(self._chance.random() * PAUSE_S)
                self._strike(self._chance.randrange(PROCESSES))
            is_early = not self._is_enough()  # one has found a fault: the others may be killed
            codes = [each.poll() if is_early else each.wait(LAST_S + 3 * CALL_S) for each in self._running]
            assert not any(codes), self._errors.read_text()[-4000:]
            assert not is_early
        finally:
            for each in self._running:
                each.kill()
                each.wait()

    def _is_enough(self) -> bool:
        """Whether the time is over, and one was struck: on a busy machine that takes longer."""
        return bool(self.blows) and time.monotonic() >= self._ends - LAST_S

    def _strike(self, place: int) -> None:
        """Freeze or kill one of them, when it holds."""
        chance, process = self._chance, self._running[place]
        while not self._holds(process):
            if process.poll() is not None or self._is_enough():
                return
            time.sleep(0.01)
        freeze(process)
        is_held = "holding" if self._holds(process) else "idle"
        if process is self._running[-1] and chance.random() < 0.3:
            self.blows[f"killed {is_held}"] += 1
            process.kill()
            process.wait()
            self._running[place] = self._start()
        else:
            seconds = chance.choice(FREEZES_S)
            self.blows[f"frozen {is_held} for {seconds} s"] += 1
            time.sleep(seconds)
            process.send_signal(signal.SIGCONT)

    def _holds(self, process: subprocess.Popen[str]) -> bool:
        """Whether a key of its session is the first of a queue; not where etcd is silent, on a busy machine."""
        try:
            heads = [kv for name in NAMES for kv in self._client.get_prefix(f"{name}/").keys[:1]]
        except EtcdUnavailable:
            return False
        return any(f'"fuzz-{process.pid}"'.encode() in kv.value for kv in heads)


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(12.0, marks=pytest.mark.timeout(240)),
        pytest.param(50.0, marks=[pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(240)]),
        pytest.param(600.0, marks=[pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]),
    ],
)
def test_a_careless_program_breaks_nothing(etcd: Etcd, client: Client, tmp_path: Path, seconds: float) -> None:
    """Never two holders, tokens that rise, no call that hangs, spins or raises what it should not, and nothing left."""
    seed = int(time.time()) if seconds > 100 else 0
    with connect(etcd.endpoint, timeout=WAIT_S) as watching:  # beside processes that leave etcd little time
        careless = Careless(etcd.endpoint, watching, tmp_path, seed, seconds)
        careless.run()
    assert overlaps(careless.spans) == []
    holds = len(careless.spans.read_text().splitlines())
    print(f"seed {seed}: {holds} holds, {dict(careless.blows)}")
    assert holds > 10
    with Session(client) as session:
        MultiLock(session, NAMES).acquire(timeout=WAIT_S + TTL_S).release()
    wait_until(lambda: keys(client, "fuzz") == [], timeout=WAIT_S)
