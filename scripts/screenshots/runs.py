"""The real runs in the pictures, each made by its command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from loadtest.stack.stack import Stack

ROOT = Path(__file__).resolve().parents[2]


def fault(directory: Path, scenario: str, guard: str) -> Path:
    """Run a fault; the path of its record."""
    return _run(directory, "faults", scenario, "--guard", guard) / f"records/{scenario}-{guard}.json"


def slow_records(directory: Path, stack: Stack) -> tuple[Path, Path]:
    """Run a small rush without a lock and under etcd; their records."""
    guards, sale = ["--guard", "none", "--guard", "etcd"], ["--buyers", "4", "--stock", "3", "--hold-ms", "3"]
    report = _run(directory, "compare", *guards, *sale, "--hosts", ",".join(stack.urls), **stack.client_environment)
    return report / "records/none.json", report / "records/etcd.json"


def comparison(directory: Path, stack: Stack) -> Path:
    """Run a rush under every guard; the path of its report."""
    hosts = ["--hosts", ",".join(stack.urls)]
    return _run(directory, "compare", "--all", *hosts, **stack.client_environment) / "index.html"


def _run(directory: Path, *words: str, **env: str) -> Path:
    """What `python -m loadtest` leaves in `directory`."""
    command = [sys.executable, "-m", "loadtest", *words]
    subprocess.run(command, cwd=directory, env={**os.environ, "PYTHONPATH": str(ROOT), **env}, check=True)
    return directory / "reports/latest"
