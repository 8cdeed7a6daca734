"""A guard in a file anywhere on the disk."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from app.guards.base import Guard, Promise

REPOSITORY = Path(__file__).resolve().parents[2]
NEEDS = ("name", "promise", "description")


class BrokenGuard(Exception):
    """A file that is no guard; the message is one sentence that names the file."""


class GuardFile(NamedTuple):
    """A guard by its file."""

    path: str

    def load(self) -> type[Guard]:
        """The guard, in a new module; raises BrokenGuard."""
        try:
            module = self._module()
        except Exception as error:
            raise BrokenGuard(f"{shown(self.path)} cannot be used: {_reason(error, self.path)}") from error
        own = [each for each in vars(module).values() if _is_guard(each) and each.__module__ == module.__name__]
        if len(own) != 1:
            raise BrokenGuard(f"{shown(self.path)} has {_what_is_there(own)}.")
        (kind,) = own
        if lacking := [name for name in NEEDS if not hasattr(kind, name)]:
            raise BrokenGuard(f"{shown(self.path)}: the class {kind.__name__} has no {' and no '.join(lacking)}.")
        if inspect.isabstract(kind):
            raise BrokenGuard(f"{shown(self.path)}: the class {kind.__name__} has no method buy.")
        if not isinstance(kind.promise, Promise):
            raise BrokenGuard(f"{shown(self.path)}: the promise of {kind.__name__} is none of Promise's.")
        found: type[Guard] = kind
        return found

    def _module(self) -> ModuleType:
        source = Path(self.path).read_text(encoding="utf-8")
        code, module = compile(source, self.path, "exec", dont_inherit=True), ModuleType(_module_name(self.path))
        module.__file__, module.__package__ = self.path, module.__name__.rpartition(".")[0]
        if not module.__package__:  # dataclasses look for the module of a class
            sys.modules[module.__name__] = module
        exec(code, vars(module))
        return module


def shown(path: str) -> str:
    """A path as people read it: from the repository, if it is there."""
    resolved = Path(path).resolve()
    return resolved.relative_to(REPOSITORY).as_posix() if resolved.is_relative_to(REPOSITORY) else str(path)


def _module_name(path: str) -> str:
    resolved = Path(path).resolve()
    if resolved.is_relative_to(REPOSITORY):
        return ".".join(resolved.relative_to(REPOSITORY).with_suffix("").parts)
    return f"guard_file_{resolved.stem}"


def _is_guard(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Guard) and (not inspect.isabstract(kind) or "name" in vars(kind))


def _what_is_there(own: Sequence[type[Guard]]) -> str:
    if not own:
        return "no guard: a class that extends Guard, with name, promise, description and the method buy"
    return f"several guards, and has to have one: {', '.join(each.__name__ for each in own)}"


def _reason(error: Exception, path: str) -> str:
    """Such as ``line 3: ModuleNotFoundError: No module named 'x'``."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return f"line {error.lineno}: {error.msg}."
    line = next(
        (each.lineno for each in reversed(traceback.extract_tb(error.__traceback__)) if each.filename == path), 0
    )
    return f"{f'line {line}: ' if line else ''}{type(error).__name__}: {error}."
