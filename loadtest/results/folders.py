"""The directories of reports, and ``latest``, which leads to the newest."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

REPORTS = Path("reports")
COMPARISON = "comparison.json"
BENCHMARK = "bench.json"
RECORDS = "records"
RESULTS = (COMPARISON, BENCHMARK, RECORDS)


class ReportsError(Exception):
    """No report can be kept; the message is one line that names the directory and the reason."""


def new_report(reports: Path = REPORTS) -> Path:
    """An empty directory named after the time; raises ReportsError."""
    name = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    try:
        reports.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(1):
            directory = reports / (name if number == 1 else f"{name}_{number}")
            with contextlib.suppress(FileExistsError):
                directory.mkdir()
                break
    except OSError as error:
        raise ReportsError(f"no report can be kept in {reports.absolute()}: {_reason(reports, error)}") from error
    return directory


def _reason(reports: Path, error: OSError) -> str:
    if not isinstance(error, FileExistsError):
        return str(error.strerror)
    return "it is a link that leads nowhere" if reports.is_symlink() else "it is not a directory"


@contextlib.contextmanager
def report_under_way(reports: Path = REPORTS) -> Iterator[Path]:
    """A new report, removed if it is interrupted before it has a result; raises ReportsError."""
    directory = new_report(reports)
    try:
        yield directory
    except KeyboardInterrupt:
        if not any((directory / name).exists() for name in RESULTS):
            shutil.rmtree(directory)
        raise
    finally:
        with contextlib.suppress(OSError):  # there is something in it
            directory.rmdir()


def point_latest(directory: Path) -> None:
    """Let ``latest`` lead to `directory`, its sibling: a symbolic link, or a file with its name."""
    latest = directory.parent / "latest"
    fresh = latest.with_name(f".latest-{os.getpid()}")
    try:
        fresh.symlink_to(directory.name, target_is_directory=True)
    except OSError:
        fresh.write_text(directory.name + "\n", encoding="utf-8")
    fresh.replace(latest)


def latest(reports: Path = REPORTS) -> Path:
    """The newest report, by `point_latest`; raises FileNotFoundError."""
    link = reports / "latest"
    return link if link.is_dir() else reports / link.read_text(encoding="utf-8").strip()
