"""The public API, called as a careless program does: at any moment, from any thread, handler, collector and child."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from loadtest.stack.servers import Etcd
from lock import Client, MultiLock
from lock.session.session import Session
from tests.support.fuzzing import CALL_S, NAMES, TTL_S, overlaps
from tests.support.lock import ROOT, WAIT_S, keys
from tests.support.waiting import wait_until

PROCESSES = 2


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seconds", [50.0, pytest.param(600.0, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_a_careless_program_breaks_nothing(etcd: Etcd, client: Client, tmp_path: Path, seconds: float) -> None:
    """Never two holders, tokens that rise, no call that hangs, spins or raises what it should not, and nothing left."""
    spans = tmp_path / "spans"
    spans.touch()
    seed = int(time.time()) if seconds > 100 else 0
    with ExitStack() as stack:
        running = []
        for number in range(PROCESSES):
            arguments = [etcd.endpoint, str(seconds), str(seed + number), str(spans)]
            command = [sys.executable, "-W", "ignore", "-m", "tests.support.fuzzing", *arguments]
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stack.callback(process.kill)
            running.append(process)
        for process in running:
            _, errors = process.communicate(timeout=seconds + 3 * CALL_S)
            assert process.returncode == 0, f"seed {seed}: {errors[-4000:]}"
    assert overlaps(spans) == []
    assert len(spans.read_text().splitlines()) > 10  # it has held, again and again
    with Session(client) as session:
        MultiLock(session, NAMES).acquire(timeout=WAIT_S + TTL_S).release()
    wait_until(lambda: keys(client, "fuzz") == [], timeout=WAIT_S)
