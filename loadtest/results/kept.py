"""Results in JSON files, written and read back: a file with a member of another type is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

_LARGEST = 2**63
T = TypeVar("T")


class KeptError(ValueError):
    """A kept file cannot be used; the message is one line that names the file and the reason."""


def write(path: Path, text: str) -> None:
    """Write a file, and the directory for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where the file has another value. Raises KeptError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise KeptError(f"{path} cannot be read: {error}") from error
    except RecursionError:
        raise KeptError(f"{path} cannot be read: it is nested too deeply") from None
    return data if isinstance(data, dict) else {}


def restore(kind: type[T], data: dict[str, Any], path: Path) -> T:
    """A dataclass from the object read from `path`; unknown members are left out. Raises KeptError."""
    try:
        restored: T = _restored(kind, data, "")
    except ValueError as error:
        raise KeptError(f"{path} is damaged: {error}") from None
    return restored


def _restored(hint: Any, value: Any, where: str) -> Any:
    """`value` as this type; raises ValueError with its place in the file."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin is UnionType:
        return _first_fit(args, value, where)
    if is_dataclass(hint):
        return _object(hint, value, where)
    expected: Any = (int, float) if hint is float else origin or hint
    if not isinstance(value, expected) or (isinstance(value, bool) and hint is not bool):
        raise _refusal(value, where)
    if origin is dict:
        return {name: _restored(args[1], each, f"{where}.{name}") for name, each in value.items()}
    if origin is list:
        return [_restored(args[0], each, f"{where}[{number}]") for number, each in enumerate(value)]
    if isinstance(value, int | float) and not abs(value) < _LARGEST:  # nor is nan
        raise _refusal(value, where)
    return value


def _first_fit(hints: Iterable[Any], value: Any, where: str) -> Any:
    for hint in hints:
        try:
            return _restored(hint, value, where)
        except ValueError as error:
            refusal = error
    raise refusal


def _object(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _refusal(value, where)
    members, needed = _members(kind)
    if missing := sorted(needed - value.keys()):
        raise ValueError(f"{where or 'the file'} has no {missing[0]!r}")
    given = {name: hint for name, hint in members.items() if name in value}
    return kind(**{name: _restored(hint, value[name], f"{where}.{name}".lstrip(".")) for name, hint in given.items()})


@cache
def _members(kind: Any) -> tuple[dict[str, Any], set[str]]:
    """The fields of a dataclass with their types, and the names of those without a default."""
    hints = get_type_hints(kind)
    needed = {each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING}
    return {each.name: hints[each.name] for each in fields(kind)}, needed


def _refusal(value: Any, where: str) -> ValueError:
    shown = repr(value)
    return ValueError(f"{where} is {shown if len(shown) < 40 else shown[:40] + '...'}")
