"""The folders of a world: a temporary and a working folder, in which lies what its purchases share as files."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from app.guards.files import REPOSITORY
from labs.steps.wire.files import SHARED

_LOCKS = Path("/proc/locks")
_HELD = re.compile(r"^\d+: (?:FLOCK|POSIX) +\S+ +(\S+) (\d+) \w+:\w+:(\d+) ", re.MULTILINE)


class Folders:
    """Emptied for each run."""

    def __init__(self, world: Path) -> None:
        self.temporary, self.work = world / "tmp", world / "work"

    def empty(self) -> None:
        """Remove what is there; raises OSError."""
        for folder in (self.temporary, self.work):
            folder.mkdir(exist_ok=True)
            for path in sorted(folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()

    def contents(self) -> dict[str, tuple[str, int]]:
        """What is there and who has locked it, as `ServerKeys`: nothing of it expires."""
        found = sorted([*self.temporary.rglob("*"), *self.work.rglob("*")])
        held = {inode: f" {how} by {pid}" for how, pid, inode in _HELD.findall(_text_of(_LOCKS))} if found else {}
        return {
            f"file {path.relative_to(self.work.parent)}": (
                f"{'folder' if path.is_dir() else repr(_text_of(path))}{held.get(_inode_of(path), '')}", 0
            )
            for path in found
        }  # fmt: skip


def _text_of(path: Path) -> str:
    try:
        return path.read_text(errors="backslashreplace")
    except OSError:  # it went meanwhile
        return "gone"


def _inode_of(path: Path) -> str:
    try:
        return str(path.stat().st_ino)
    except OSError:
        return ""


def shared_in(temporary: str, work: str, *, applies: Callable[[str], bool]) -> Callable[[str], str | None]:
    """Where a path lies that purchases share: in these folders, also if it is one of all programs."""
    exempt = (str(REPOSITORY), sys.prefix, sys.base_prefix, str(Path(temporary).parent))

    def shared(path: str) -> str | None:
        if not applies(path):
            return None
        whole = os.path.abspath(path)  # noqa: PTH100  # a link is not followed
        if whole.startswith((f"{temporary}/", f"{work}/")):
            return path
        beneath = next((each for each in SHARED if whole.startswith(each)), None)
        is_above = any(each.startswith(f"{whole}/") for each in exempt)
        if beneath is None or is_above or whole.startswith((*exempt, str(Path.home()))):
            return None
        return f"{temporary}/{whole.removeprefix(beneath)}"

    return shared
