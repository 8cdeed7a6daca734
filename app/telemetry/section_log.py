"""The log of this process's critical sections, by which a sale can be judged afterwards.

If ``FLASHSALE_SECTION_LOG`` names a directory, every process appends to INSTANCE-PID.jsonl in it: a line when a
critical section begins, and a line when it ends, before its lock is released::

    {"at", "event": "enter", "order", "item", "buyer", "guard", "token", "instance", "pid", "thread"}
    {"at", "event": "leave", "order", "read_at", "commit_at", "outcome", "cause", "stock"}

All times are those of `app.clock`. `read_at` and `commit_at` are when read and write were sent, null if they were not.
`outcome` was decided inside, null if the purchase tries again, and `stock` was left then. `cause` is "replayed", how
the lock was lost, or the name of the error; null for a plain sale. A section without its second line is open: its
process died or is frozen.

Error handling: a line that cannot be written is left out, and the application's log says so once.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from pathlib import Path

from app.clock import now_ns
from app.sales.purchase import Purchase, SectionListener
from app.sales.refusals import refusal_of

logger = logging.getLogger(__name__)

LARGEST_FILE = 64 * 1024 * 1024  # bytes; some 150,000 purchases
FULL = {"event": "full"}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class SectionLog(SectionListener):
    """The section log of one process: a file of at most `largest` bytes and a line `FULL`. Thread-safe.

    File and directory are made when the first line is written; the file is open until the process ends.
    """

    def __init__(self, directory: Path, *, instance: str, largest: int = LARGEST_FILE) -> None:
        self._directory = directory
        self._instance = instance
        self._left = largest
        self._file: int | None = None
        self._lock = threading.Lock()

    def entered(self, purchase: Purchase) -> None:
        bought = {name: getattr(purchase, name) for name in ("order", "item", "buyer", "guard", "token")}
        process = {"instance": self._instance, "pid": os.getpid(), "thread": threading.current_thread().name}
        self._write({"at": now_ns(), "event": "enter", **bought, **process})

    def left(self, purchase: Purchase, error: BaseException | None) -> None:
        section = {name: getattr(purchase, name) for name in ("order", "read_at", "commit_at")}
        outcome, cause = _verdict(purchase, error)
        stock = purchase.decided.stock if purchase.decided else None
        self._write({"at": now_ns(), "event": "leave", **section, "outcome": outcome, "cause": cause, "stock": stock})

    def _write(self, event: dict[str, object]) -> None:
        """Hand one line to the operating system, which keeps it if this process is killed."""
        line = f"{_encode(event)}\n".encode()
        with self._lock:
            if self._left <= 0:
                return
            self._left -= len(line)
            if self._left <= 0:
                line = f"{_encode(FULL)}\n".encode()
            try:
                if self._file is None:
                    self._file = self._open()
                os.write(self._file, line)
            except OSError as error:
                self._left = 0
                logger.error("the section log ends here: %s", error)

    def _open(self) -> int:
        self._directory.mkdir(parents=True, exist_ok=True)
        path = own_file(self._directory, self._instance, "jsonl")
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def own_file(directory: Path, instance: str, suffix: str) -> Path:
    """The path of this process's file."""
    name = re.sub(r"[^\w.-]", "-", instance)
    return directory / f"{name}-{os.getpid()}.{suffix}"


def _verdict(purchase: Purchase, error: BaseException | None) -> tuple[str | None, str | None]:
    if error is None:
        decided = purchase.decided
        return (decided.outcome.value, "replayed" if decided.replayed else None) if decided else (None, None)
    refusal = refusal_of(error)
    if refusal is None:
        return None, type(error).__name__
    return refusal.outcome.value, refusal.loss.value if refusal.loss else type(error).__name__
