"""Where an instance spends its interpreter's time: py-spy samples the thread that has it, and each sample is a part's.

A sample belongs to the innermost frame that is not of the standard library: who waits for a lock, or encodes JSON, is
the one who has called that.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loadtest import REPOSITORY

PER_S = 200
_ENDS_S = 30.0
_OTHERS = "others"
# The first that stands in a frame's file counts.
_PARTS = {
    "gunicorn": r"/site-packages/gunicorn/",
    "Flask": r"/site-packages/(flask|werkzeug|blinker|itsdangerous|click|jinja2)/",
    "redis-py": r"/site-packages/(redis|hiredis)/",
    "gRPC": r"/site-packages/(grpc|google|etcd3)/",
    "log": rf"{re.escape(str(REPOSITORY))}/app/telemetry/(section_log|mapped_file)",
    "app": rf"{re.escape(str(REPOSITORY))}/(app|labs)/",
    "lock": rf"{re.escape(str(REPOSITORY))}/lock/",
    _OTHERS: r"/site-packages/",
}
PARTS = tuple(_PARTS)


class NotSampled(Exception):
    """py-spy is missing, or may not look into the process; the message is its own."""


@contextmanager
def sampled(pid: int, folded: Path) -> Iterator[None]:
    """Sample a process and its children meanwhile, into a file for `shares`; raises `NotSampled` at the end."""
    command = shutil.which("py-spy", path=Path(sys.executable).parent) or shutil.which("py-spy")
    if command is None:
        raise NotSampled("py-spy is not installed: make setup-dev")
    folded.unlink(missing_ok=True)  # or a sampling that fails would have the samples of the one before
    spy = subprocess.Popen(
        [
            command, "record", "--pid", str(pid), "--subprocesses", "--gil", "--nonblocking", "--rate", str(PER_S),
            "--format", "raw", "--full-filenames", "--duration", "unlimited", "--output", str(folded),
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield
    finally:
        spy.send_signal(signal.SIGINT)
        try:
            _, told = spy.communicate(timeout=_ENDS_S)
        finally:
            spy.kill()  # does nothing to one that has ended
    if not folded.exists():
        raise NotSampled(told.strip().splitlines()[-1] if told.strip() else "py-spy has written nothing")


def shares(folded: str) -> dict[str, float]:
    """Of the samples in a text of lines ``FRAME;FRAME... COUNT``, what each of `PARTS` has; empty where there are none.

    A frame is ``FUNCTION (FILE:LINE)``, the innermost last.
    """
    counts: Counter[str] = Counter()
    for line in folded.splitlines():
        stack, _, count = line.rpartition(" ")
        counts[_part(stack.split(";"))] += int(count)
    total = counts.total()
    return {part: round(counts[part] / total, 3) for part in PARTS} if total else {}


def _part(frames: list[str]) -> str:
    for frame in reversed(frames):
        for part, pattern in _PARTS.items():
            if re.search(pattern, frame):
                return part
    return _OTHERS
