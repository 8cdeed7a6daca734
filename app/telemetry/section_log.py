"""Writes the log of this process's critical sections; its lines are described in `app.contract.section_log`.

Error handling: a line that cannot be written is left out, and the application's log says so once.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from app.contract.clock import now_ns
from app.sales.purchase import PurchaseListener, Receipt, Section
from app.sales.refusals import refusal_of
from app.telemetry.guard_lines import GuardLines

logger = logging.getLogger(__name__)

LARGEST_FILE = 64 * 1024 * 1024  # bytes; some 150,000 purchases
FULL = {"event": "full"}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class SectionLog(PurchaseListener):
    """The section log of one process: a file of at most `largest` bytes and a line `FULL`. Thread-safe.

    File and directory are made when the first line is written; the file is open until the process ends.

    Args:
        buys: `buy` of each guard, by the guard's name; of these guards the lines are kept as well.
    """

    def __init__(
        self,
        directory: Path,
        *,
        instance: str,
        largest: int = LARGEST_FILE,
        buys: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self._directory = directory
        self._instance = instance
        self._lines = {name: GuardLines(buy) for name, buy in (buys or {}).items()}
        self._kept: set[str] = set()  # guards whose source lies in the directory
        self._points: dict[str, tuple[int, list[tuple[str, int | None, int]]]] = {}  # by order: entered, points
        self._left = largest
        self._file: int | None = None
        self._lock = threading.Lock()

    def locked(self, section: Section) -> None:
        purchase, at = section.purchase, now_ns()
        self._points[purchase.order] = at, []
        bought = {name: getattr(purchase, name) for name in ("order", "item", "buyer", "guard")}
        process = {"instance": self._instance, "pid": os.getpid(), "thread": threading.current_thread().name}
        line = self._line(section)
        self._write({"at": at, "event": "enter", **bought, "token": section.token, **process, "line": line})
        if line is not None and purchase.guard not in self._kept:
            self._keep_source(purchase.guard)

    def read(self, section: Section) -> None:
        self._pass("read", section)

    def think(self, section: Section) -> None:
        self._pass("think", section)

    def write(self, section: Section) -> None:
        self._pass("write", section)

    def left(self, section: Section, error: BaseException | None) -> None:
        entered, points = self._points.get(section.purchase.order, (0, []))
        if section.commit_at is not None and points:
            answered = min(section.commit_at + int(section.commit_s * 1e9), now_ns())
            points.append(("wrote", points[-1][1], (answered - entered) // 1000))
        self._pass("left", section)
        self._points.pop(section.purchase.order, None)
        receipt = section.receipt
        outcome, cause = _verdict(receipt, error)
        times = {"read_at": section.read_at, "commit_at": section.commit_at}
        stock = {"stock": receipt.stock if receipt else None, "stock_read": section.stock}
        line = {"at": now_ns(), "event": "leave", "order": section.purchase.order, **times}
        self._write({**line, "outcome": outcome, "cause": cause, **stock, "points": points})

    def _pass(self, point: str, section: Section) -> None:
        entered, points = self._points.get(section.purchase.order, (0, None))
        if points is not None:
            points.append((point, self._line(section), (now_ns() - entered) // 1000))

    def _line(self, section: Section) -> int | None:
        lines = self._lines.get(section.purchase.guard)
        return lines.line_now() if lines else None

    def _keep_source(self, guard: str) -> None:
        self._kept.add(guard)
        try:
            self._lines[guard].source.keep(self._directory, guard)
        except OSError as error:
            logger.error("the source of %s is not kept beside the section log: %s", guard, error)

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
