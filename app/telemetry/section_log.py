"""Writes the log of this process's critical sections; its lines are described in `app.contract.section_log`.

Error handling: a line that cannot be written is left out, and the application's log says so once.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from pathlib import Path

from app.contract.clock import now_ns
from app.sales.purchase import PurchaseListener, Receipt, Section
from app.sales.refusals import refusal_of

logger = logging.getLogger(__name__)

LARGEST_FILE = 64 * 1024 * 1024  # bytes; some 150,000 purchases
FULL = {"event": "full"}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class SectionLog(PurchaseListener):
    """The section log of one process: a file of at most `largest` bytes and a line `FULL`. Thread-safe.

    File and directory are made when the first line is written; the file is open until the process ends.
    """

    def __init__(self, directory: Path, *, instance: str, largest: int = LARGEST_FILE) -> None:
        self._directory = directory
        self._instance = instance
        self._left = largest
        self._file: int | None = None
        self._lock = threading.Lock()

    def locked(self, section: Section) -> None:
        bought = {name: getattr(section.purchase, name) for name in ("order", "item", "buyer", "guard")}
        process = {"instance": self._instance, "pid": os.getpid(), "thread": threading.current_thread().name}
        self._write({"at": now_ns(), "event": "enter", **bought, "token": section.token, **process})

    def left(self, section: Section, error: BaseException | None) -> None:
        receipt = section.receipt
        outcome, cause = _verdict(receipt, error)
        times = {"read_at": section.read_at, "commit_at": section.commit_at}
        stock = receipt.stock if receipt else None
        line = {"at": now_ns(), "event": "leave", "order": section.purchase.order, **times}
        self._write({**line, "outcome": outcome, "cause": cause, "stock": stock})

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


def _verdict(receipt: Receipt | None, error: BaseException | None) -> tuple[str | None, str | None]:
    if error is None:
        return (receipt.outcome.value, "replayed" if receipt.replayed else None) if receipt else (None, None)
    refusal = refusal_of(error)
    if refusal is None:
        return None, type(error).__name__
    return refusal.outcome.value, refusal.loss.value if refusal.loss else type(error).__name__
