"""How a benchmark ends, and what is left then."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.commands import leaving_nothing


@pytest.mark.timeout(240)
def test_a_killed_benchmark_leaves_nothing(tmp_path: Path) -> None:
    """After kill -9 no server, no worker, no directory and no report is left."""
    words = ["bench-lock", "--waiters=2", "--candidate=cohort", "--seconds=1"]
    with leaving_nothing(tmp_path, *words, until="cohort") as ended:
        ended.end(signal.SIGKILL)
    assert not (tmp_path / "reports").exists()
