"""The directories of reports, and ``latest``, a link to the newest."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click

REPORTS = Path("reports")
LATEST = REPORTS / "latest"
COMPARISON = "comparison.json"
RECORDS = "records"


def new_report(reports: Path = REPORTS) -> Path:
    """An empty directory named after the time; raises ClickException if no report can be kept."""
    name = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    try:
        reports.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(1):
            directory = reports / (name if number == 1 else f"{name}_{number}")
            with contextlib.suppress(FileExistsError):
                directory.mkdir()
                break
    except OSError as error:
        reason = "it is not a directory" if isinstance(error, FileExistsError) else error.strerror
        raise click.ClickException(f"no report can be kept in {reports.absolute()}: {reason}") from error
    return directory


@contextlib.contextmanager
def report_under_way(reports: Path = REPORTS) -> Iterator[Path]:
    """A new report, removed if it is interrupted before it has a result; raises as `new_report`."""
    directory = new_report(reports)
    try:
        yield directory
    except KeyboardInterrupt:
        if not (any(directory.glob("*.json")) or (directory / RECORDS).exists()):
            shutil.rmtree(directory)
        raise
    finally:
        with contextlib.suppress(OSError):  # there is something in it
            directory.rmdir()


def point_latest(directory: Path) -> None:
    """Let ``latest`` lead to `directory`, its sibling."""
    fresh = directory.with_name(f".latest-{os.getpid()}")
    fresh.symlink_to(directory.name)
    fresh.replace(directory.with_name(LATEST.name))
