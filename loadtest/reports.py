"""Where reports are kept: a directory for each, and ``latest``, which leads to the newest."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

REPORTS = Path("reports")
COMPARISON = "comparison.json"
BENCHMARK = "bench.json"


def new_report(reports: Path = REPORTS) -> Path:
    """An empty directory named after the time."""
    name = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    for number in range(1, 1000):
        directory = reports / (name if number == 1 else f"{name}_{number}")
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            continue
        return directory
    raise FileExistsError(f"{reports}/{name}")


def point_latest(directory: Path) -> None:
    """Let ``latest`` name `directory`, its sibling: a symbolic link, or a file with its name where none can be made."""
    latest = directory.parent / "latest"
    fresh = latest.with_name(f".latest-{os.getpid()}")
    try:
        fresh.symlink_to(directory.name, target_is_directory=True)
    except OSError:
        fresh.write_text(directory.name + "\n", encoding="utf-8")
    fresh.replace(latest)


def latest(reports: Path = REPORTS) -> Path:
    """The newest report, which `point_latest` was told of; raises FileNotFoundError."""
    link = reports / "latest"
    return link if link.is_dir() else reports / link.read_text(encoding="utf-8").strip()
