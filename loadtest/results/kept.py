"""Read back what was kept as JSON: every field has its type, or the file is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

_LARGEST = 2**63
Check = Callable[[Any, str], Any]
T = TypeVar("T")


class KeptError(ValueError):
    """A kept file cannot be used; the message is one line that names the file and the reason."""


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where the file has something else. Raises KeptError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise KeptError(f"{path} cannot be read: {error}") from error
    except RecursionError:
        raise KeptError(f"{path} cannot be read: it is nested too deeply") from None
    return data if isinstance(data, dict) else {}


def restore(kind: type[T], data: dict[str, Any], path: Path) -> T:
    """A dataclass from what was read from `path`; unknown members are left out. Raises KeptError."""
    try:
        restored: T = _check(kind)(data, "")  # type: ignore[arg-type]
    except ValueError as error:
        raise KeptError(f"{path} is damaged: {error}") from None
    return restored


@cache
def _check(hint: Any) -> Check:
    """What takes a JSON value and its place in the file to a value of this type; raises ValueError."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value, where: value
    if origin is UnionType:
        return _one_of([_check(each) for each in args])
    if origin in (list, dict):
        return _collection(origin, _check(args[-1]))
    return _object(hint) if is_dataclass(hint) else _plain(hint)


def _plain(hint: Any) -> Check:
    allowed = (int, float) if hint is float else hint

    def check(value: Any, where: str) -> Any:
        if not isinstance(value, allowed) or (isinstance(value, bool) and hint is not bool):
            raise _refusal(value, where)
        if isinstance(value, int | float) and not abs(value) < _LARGEST:  # nor is nan
            raise _refusal(value, where)
        return value

    return check


def _one_of(checks: list[Check]) -> Check:
    def check(value: Any, where: str) -> Any:
        for each in checks:
            try:
                return each(value, where)
            except ValueError as error:
                refusal = error
        raise refusal

    return check


def _collection(origin: Any, check_one: Check) -> Check:
    def check(value: Any, where: str) -> Any:
        if not isinstance(value, origin):
            raise _refusal(value, where)
        if origin is dict:
            return {name: check_one(each, f"{where}.{name}") for name, each in value.items()}
        return [check_one(each, f"{where}[{number}]") for number, each in enumerate(value)]

    return check


def _object(kind: Any) -> Check:
    hints = get_type_hints(kind)
    checks = {each.name: _check(hints[each.name]) for each in fields(kind)}
    needed = {each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING}

    def check(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise _refusal(value, where)
        if missing := sorted(needed - value.keys()):
            raise ValueError(f"{where or 'the file'} has no {missing[0]!r}")
        given = {name: each for name, each in checks.items() if name in value}
        return kind(**{name: each(value[name], f"{where}.{name}".lstrip(".")) for name, each in given.items()})

    return check


def _refusal(value: Any, where: str) -> ValueError:
    shown = repr(value)
    return ValueError(f"{where} is {shown if len(shown) < 40 else shown[:40] + '...'}")
