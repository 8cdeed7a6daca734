"""Where the schedules of a guard are kept. The board's image has no load test, so this imports none of it.

What the repository's site was built with is in ``recorded/`` of the labs; `make recorded` makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PREFIX = "schedules-"
LABS = Path(__file__).parents[2]


def newest(reports: Path, folders: str = "*") -> Iterator[tuple[str, Path]]:
    """The newest file of each guard that was explored, by its name."""
    found: dict[str, Path] = {}
    for path in sorted(reports.glob(f"{folders}/{PREFIX}*.json")):
        if not path.parent.is_symlink():
            found[path.stem.removeprefix(PREFIX)] = path
    yield from sorted(found.items())


def recorded() -> dict[str, Path]:
    """The file of each guard that came with the repository, by its name."""
    return dict(newest(LABS, "*/recorded"))
