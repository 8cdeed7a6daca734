"""Results in JSON files, written and read back: a file with a member of another type is refused in one line."""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import click

_LARGEST = 2**63
T = TypeVar("T")


class KeptError(click.ClickException):
    """A kept file cannot be used; the message is one line that names the file and the reason."""


def write(path: Path, text: str) -> None:
    """Write a file, and the directory for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where the file has another value. Raises KeptError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise KeptError(f"{path} cannot be read: {error}") from error
    return data if isinstance(data, dict) else {}


def restore(kind: type[T], data: dict[str, Any], path: Path) -> T:
    """A dataclass from the object read from `path`; unknown members are left out. Raises KeptError."""
    try:
        restored: T = _object(kind, data)
    except (RecursionError, TypeError, ValueError) as error:
        raise KeptError(f"{path} is damaged: {error}") from None
    return restored


def _restored(hint: Any, value: Any, name: str) -> Any:
    """The value of a member as this type; raises ValueError where it has another."""
    if hint is Any:
        return value
    hints = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    fitting = next((each for each in hints if _fits(each, value)), None)
    if fitting is None:
        raise ValueError(f"{name} is {value!r:.40}")
    if is_dataclass(fitting):
        return _object(fitting, value)
    if _is_enum(fitting):
        return fitting(value)
    *_, inner = get_args(fitting) or (Any,)
    if isinstance(value, dict):
        return {key: _restored(inner, each, f"{name}.{key}") for key, each in value.items()}
    if isinstance(value, list):
        return [_restored(inner, each, name) for each in value]
    return value


def _object(kind: Any, data: dict[str, Any]) -> Any:
    """Raises TypeError where a member is missing."""
    hints = _hints(kind)
    return kind(**{name: _restored(hints[name], value, name) for name, value in data.items() if name in hints})


def _fits(hint: Any, value: Any) -> bool:
    """Whether a JSON value is of this type, whatever is inside it; a boolean is no number, nor is NaN."""
    if isinstance(value, int | float) and not abs(value) < _LARGEST:
        return False
    if is_dataclass(hint):
        return isinstance(value, dict)
    if _is_enum(hint):
        return isinstance(value, str)
    kind = (int, float) if hint is float else get_origin(hint) or hint
    return isinstance(value, kind) and isinstance(value, bool) == (hint is bool)


def _is_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Enum)


_hints = cache(get_type_hints)
