"""Where a click goes: whose a sample is, and that a running process is sampled."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from labs.bench.profile import PARTS, NotSampled, sampled, shares
from loadtest import REPOSITORY

SITE = "/usr/lib/python3.11/site-packages"
WORKER = f"run ({SITE}/gunicorn/workers/gthread.py:1)"


@pytest.mark.parametrize(
    ("frames", "part"),
    [
        ([WORKER], "gunicorn"),
        ([WORKER, "_bootstrap (threading.py:1)", "get (/usr/lib/python3.11/queue.py:9)"], "gunicorn"),
        ([WORKER, f"dispatch ({SITE}/flask/app.py:1)", f"url ({SITE}/werkzeug/routing.py:1)"], "Flask"),
        ([WORKER, f"buy ({REPOSITORY}/app/guards/none.py:1)", f"send ({SITE}/redis/connection.py:1)"], "redis-py"),
        ([WORKER, f"buy ({REPOSITORY}/app/guards/none.py:1)", "dumps (/usr/lib/python3.11/json/init.py:1)"], "app"),
        ([WORKER, f"enter ({REPOSITORY}/app/telemetry/section_log.py:1)"], "log"),
        ([WORKER, f"acquire ({REPOSITORY}/lock/session/engine.py:1)", "wait (threading.py:1)"], "lock"),
        ([WORKER, f"future ({SITE}/grpc/_channel.py:1)"], "gRPC"),
        ([WORKER, f"inc ({SITE}/prometheus_client/metrics.py:1)"], "others"),
        (["_run (threading.py:1)"], "others"),
    ],
)
def test_a_sample_is_of_who_called_the_standard_library(frames: list[str], part: str) -> None:
    """The innermost frame that is not of the standard library says whose it is; shares are of all samples."""
    found = shares(f"{';'.join(frames)} 3\nelsewhere (<string>:1) 1\n")
    assert set(found) == set(PARTS)
    assert found[part] == (1.0 if part == "others" else 0.75)


def test_a_running_process_is_sampled(tmp_path: Path) -> None:
    """A process that computes is found computing; one that has ended is an error, and leaves no samples of before."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with sampled(busy.pid, tmp_path / "samples"):
            time.sleep(1.0)  # what is sampled is time
    except NotSampled as error:
        if "ermission" in str(error):
            pytest.skip(str(error))
        raise
    finally:
        busy.kill()
        busy.wait()
    assert shares((tmp_path / "samples").read_text())["others"] == 1.0
    with pytest.raises(NotSampled), sampled(busy.pid, tmp_path / "samples"):
        pass
    assert not (tmp_path / "samples").exists()


def test_without_samples_there_are_no_shares() -> None:
    """A process that only waited has no part to name."""
    assert shares("") == {}
