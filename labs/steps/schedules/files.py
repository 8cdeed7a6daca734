"""Where the schedules of a guard are kept. The board's image has no load test, so this imports none of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PREFIX = "schedules-"


def newest(reports: Path) -> Iterator[tuple[str, Path]]:
    """The newest file of each guard that was explored, by its name."""
    found: dict[str, Path] = {}
    for path in sorted(reports.glob(f"*/{PREFIX}*.json")):
        if not path.parent.is_symlink():
            found[path.stem.removeprefix(PREFIX)] = path
    yield from sorted(found.items())
