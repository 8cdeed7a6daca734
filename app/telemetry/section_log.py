"""Writes the log of this process's critical sections; its lines are described in `app.contract.section_log`.

Error handling: lines that cannot be written are left out, and the application's log says so once. When there is room
again, a line `Gap` says how many are missing.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from app.contract.clock import now_ns
from app.contract.section_log import Enter, Event, Full, Gap, Leave, Point
from app.sales.purchase import PurchaseListener, Receipt, Section
from app.sales.refusals import refusal_of
from app.telemetry.guard_lines import GuardLines
from app.telemetry.mapped_file import MappedFile

logger = logging.getLogger(__name__)

LARGEST_FILE = 64 * 1024 * 1024  # bytes; some 120,000 purchases
RETRY_S = 1.0  # after a line could not be written
_encode = msgspec.json.Encoder().encode


class SectionLog(PurchaseListener):
    """The section log of one process: a file of about `largest` bytes that ends with `Full`. Thread-safe.

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
        self._largest = largest
        self._lines = {name: GuardLines(buy) for name, buy in (buys or {}).items()}
        self._kept: set[str] = set()  # guards whose source lies in the directory
        self._passed: dict[str, tuple[int, list[Point]]] = {}  # by order: when it entered, and the points
        self._file: MappedFile | None = None
        self._missing = 0  # lines that could not be written
        self._retry_at = 0.0  # in seconds of `time.monotonic`
        self._full = False
        self._lock = threading.Lock()

    def locked(self, section: Section) -> None:
        purchase, at, lines = section.purchase, now_ns(), self._lines.get(section.purchase.guard)
        line = lines.line_of(sys._getframe()) if lines else None
        self._passed[purchase.order] = at, []
        self._write(
            Enter(
                at=at,
                order=purchase.order,
                item=purchase.item,
                buyer=purchase.buyer,
                guard=purchase.guard,
                token=section.token,
                instance=self._instance,
                pid=os.getpid(),
                thread=threading.current_thread().name,
                line=line,
            )
        )
        if line is not None and purchase.guard not in self._kept:
            self._keep_source(purchase.guard)

    def read(self, section: Section) -> None:
        self._pass("read", section)

    def think(self, section: Section) -> None:
        self._pass("think", section)

    def write(self, section: Section) -> None:
        self._pass("write", section)

    def left(self, section: Section, error: BaseException | None) -> None:
        at = now_ns()
        entered, points = self._passed.pop(section.purchase.order, (at, []))
        if section.commit_at is not None and points:
            answered = min(section.commit_at + int(section.commit_s * 1e9), at)
            points.append(("wrote", points[-1][1], (answered - entered) // 1000))
        lines = self._lines.get(section.purchase.guard)
        line = lines.line_of(sys._getframe()) if lines else None
        points.append(("left", line, (at - entered) // 1000))
        receipt = section.receipt
        outcome, cause = _verdict(receipt, error)
        self._write(
            Leave(
                at=at,
                order=section.purchase.order,
                read_at=section.read_at,
                commit_at=section.commit_at,
                outcome=outcome,
                cause=cause,
                stock=receipt.stock if receipt else None,
                stock_read=section.stock,
                points=points,
            )
        )

    def _pass(self, name: str, section: Section) -> None:
        entered, points = self._passed[section.purchase.order]
        lines = self._lines.get(section.purchase.guard)
        line = lines.line_of(sys._getframe()) if lines else None
        points.append((name, line, (now_ns() - entered) // 1000))

    def _keep_source(self, guard: str) -> None:
        self._kept.add(guard)
        try:
            self._lines[guard].source.keep(self._directory, guard)
        except OSError as error:
            logger.error("the source of %s is not kept beside the section log: %s", guard, error)

    def _write(self, event: Event) -> None:
        """Append one event, which is kept if this process is killed."""
        line, file = _encode(event) + b"\n", self._file
        if self._full:
            return
        if file is None or self._missing or file.size + len(line) > self._largest:
            self._write_alone(line)
            return
        try:
            file.append(line)
        except OSError as error:
            with self._lock:
                self._miss(error)

    def _write_alone(self, line: bytes) -> None:
        """Append the first line, the last one, or one behind a gap."""
        with self._lock:
            if self._missing and time.monotonic() < self._retry_at:
                self._missing += 1
                return
            try:
                if self._file is None:
                    self._directory.mkdir(parents=True, exist_ok=True)
                    self._file = MappedFile(own_file(self._directory, self._instance, "jsonl"))
                if self._missing:
                    self._file.append(_encode(Gap(self._missing)) + b"\n")
                    self._missing = 0
                if not self._full:
                    self._full = self._file.size + len(line) > self._largest
                    self._file.append(_encode(Full()) + b"\n" if self._full else line)
            except OSError as error:
                self._miss(error)

    def _miss(self, error: OSError) -> None:
        """Count a line that could not be written; with the lock held."""
        if not self._missing:
            logger.error("the section log has a gap from here on: %s", error)
        self._missing += 1
        self._retry_at = time.monotonic() + RETRY_S


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
