"""The benchmark of the locks: bursts; Go's Mutex, skipped with a word if it cannot be compiled."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from labs.bench import meters
from labs.bench.locks import bench
from labs.bench.locks.bench import PYTHON
from loadtest.cli.main import cli
from loadtest.stack.servers import Etcd
from tests.support.commands import leaving_nothing


@pytest.mark.slow
def test_without_a_toolchain_it_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says so, and why; the other locks are measured."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(bench, "repeat", lambda step, seconds: meters.repeat(step, 0.1))
    locks = [f"--candidate={lock}" for lock in ("go", "strict", "go-sessions", "election")]
    few = ["--waiters=2", "--sessions=4", "--seconds=0.1"]
    done = CliRunner().invoke(cli, ["bench-lock", *locks, *few])
    assert done.exit_code == 0, done.output
    skipped = "go, go-sessions: skipped, for there is no Go toolchain on PATH (apt install golang-go "
    assert done.output.count(skipped) == 1
    assert re.findall(r"\u2502 (\S+) +\u2502 +\d+ +\u2502", done.output) == ["strict", "election"]


@pytest.mark.parametrize("candidate", ["burst", "two tickets each"])
def test_in_a_burst_each_waiter_takes_one_turn(etcd: Etcd, candidate: str) -> None:
    """All turns are counted, however short the time that other locks are given."""
    worker = [*PYTHON, candidate, etcd.endpoint, "", "bench/burst", "6", "0.001"]
    done = subprocess.run(worker, input="count\n", capture_output=True, text=True, timeout=60, check=True)
    queued, counted = done.stdout.splitlines()
    assert (queued, json.loads(counted)["turns"]) == ("queued", 6)


@pytest.mark.timeout(240)
def test_a_killed_benchmark_leaves_nothing(tmp_path: Path) -> None:
    """After kill -9 no server, no worker, no directory and no report is left."""
    words = ["bench-lock", "--waiters=2", "--candidate=cohort", "--seconds=1"]
    with leaving_nothing(tmp_path, *words, until="cohort") as ended:
        ended.end(signal.SIGKILL)
    assert not (tmp_path / "reports").exists()
