"""Where the schedules of a guard are kept. The board's image has no load test, so this imports none of it.

What the repository's site was built with is in ``recorded/`` of the labs; `make recorded` makes it anew.
"""

from __future__ import annotations

from pathlib import Path

PREFIX = "schedules-"
LABS = Path(__file__).parents[2]


def newest(reports: Path, folders: str = "*") -> dict[str, Path]:
    """The newest file of each guard that was explored, by its name."""
    paths = [path for path in reports.glob(f"{folders}/{PREFIX}*.json") if not path.parent.is_symlink()]
    return dict(sorted((path.stem.removeprefix(PREFIX), path) for path in paths))


def recorded() -> dict[str, Path]:
    """The file of each guard that came with the repository, by its name."""
    return newest(LABS, "*/recorded")
