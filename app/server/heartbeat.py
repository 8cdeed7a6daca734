"""The heartbeat of a worker process, which the board reads while all threads are busy.

In a locked rush every thread waits for the lock, so none is left to answer ``/metrics``. If ``FLASHSALE_SECTION_LOG``
names a directory, each worker process therefore keeps one line in INSTANCE-PID.heartbeat::

    {"at", "instance", "pid", "began", "threads", "in_hand", "queued", "outcomes": {"sold": n, ...}}

`at` and `began` are times of `app.contract.clock`; `began` distinguishes processes that reuse a process id. `in_hand`
requests run, `queued` requests wait for a thread, and `outcomes` counts purchases since the process began. If `at` no
longer changes, the process is frozen or gone.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from app.contract.clock import now_ns
from app.telemetry.section_log import own_file

logger = logging.getLogger(__name__)

EVERY_S = 0.125
_LENGTH = 1024  # of the line, padded, so that each write replaces the whole of it


class Heartbeat(threading.Thread):
    """Writes the line several times a second, until `close`; makes the directory if it is missing.

    `load` returns ``threads``, ``in_hand`` and ``queued``; `outcomes` returns the number of purchases by outcome.
    """

    def __init__(
        self,
        directory: Path,
        instance: str,
        *,
        load: Callable[[], dict[str, int]],
        outcomes: Callable[[], dict[str, int]],
    ) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._path = own_file(directory, instance, "heartbeat")
        self._instance = instance
        self._began = now_ns()
        self._load = load
        self._outcomes = outcomes
        self._closed = threading.Event()

    def run(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
            while True:
                os.pwrite(file, self._line(), 0)
                if self._closed.wait(EVERY_S):
                    break
            os.close(file)
            self._path.unlink(missing_ok=True)
        except OSError as error:
            logger.error("the board will not see this process: %s", error)

    def close(self) -> None:
        """Stop, and remove the file."""
        self._closed.set()
        self.join(timeout=1.0)

    def _line(self) -> bytes:
        process = {"at": now_ns(), "instance": self._instance, "pid": os.getpid(), "began": self._began}
        line = {**process, **self._load(), "outcomes": self._outcomes()}
        return json.dumps(line).encode().ljust(_LENGTH - 1) + b"\n"
