"""The measurement of the locks."""

from __future__ import annotations

import subprocess
import sys

import psutil

from tests.support.leftovers import assert_gone, directories_of


def test_nothing_outlives_a_killed_measurement() -> None:
    """After kill -9 its servers end, and the directory with their data is gone."""
    command = [sys.executable, "-m", "loadtest", "bench-lock", "--waiters=2", "--candidate=cohort", "--seconds=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as measuring:
        assert measuring.stdout is not None
        try:
            assert measuring.stdout.read(6) == b"cohort"  # so its servers are ready
            children = psutil.Process(measuring.pid).children()
            directories = directories_of(children)
        finally:
            measuring.kill()
    assert_gone(children, directories)
