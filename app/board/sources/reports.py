"""Recorded runs that are kept on this machine: what each is, without its rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

MOST_RUNS = 10  # directories, the newest
MOST_RECORDS = 200
_TOLD = ("started", "guard", "scenario", "verdict")


def read_reports(directory: Path) -> Iterator[dict[str, Any]]:
    """Path, start, guard, scenario and verdict of each record, the newest run first; other files are left out."""
    times = sorted((each for each in directory.glob("*") if not each.is_symlink()), reverse=True)
    for path in (path for time in times[:MOST_RUNS] for path in sorted(time.glob("records/*.json"))):
        name = path.relative_to(directory).as_posix()
        with suppress(OSError, ValueError):
            record = _read(path, path.stat().st_mtime_ns)
            if record and name.encode(errors="replace").decode() == name:  # others cannot be sent
                yield {"path": name, **record}


@lru_cache(MOST_RECORDS)
def _read(path: Path, _changed: int) -> dict[str, Any] | None:
    record = json.loads(path.read_bytes())
    if not isinstance(record, dict) or not isinstance(record.get("verdict"), dict):
        return None
    return {name: record.get(name) for name in _TOLD}
