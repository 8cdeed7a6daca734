"""Results in JSON files, written and read back: a file with a member of another type is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

T = TypeVar("T")


class KeptError(click.ClickException):
    """A kept file cannot be used; the message is one line that names the file and the reason."""


def write_text_file(path: Path, text: str) -> None:
    """Write a file, and the directory for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if the file has another value. Raises KeptError."""
    try:
        data = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        raise KeptError(f"{path} cannot be read: {error}") from error
    return data if isinstance(data, dict) else {}


def restore(kind: type[T], data: dict[str, Any], path: Path) -> T:
    """A dataclass from the object read from `path`; unknown members are left out. Raises KeptError."""
    try:
        return msgspec.convert(data, kind)
    except (RecursionError, msgspec.MsgspecError) as error:
        raise KeptError(f"{path} is damaged: {error}") from None
