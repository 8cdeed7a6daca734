"""Guards as files, from anywhere on the disk: each load is a new module, which remembers nothing of an earlier one."""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.abc import ExecutionLoader
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from app.guards.base import Guard, Promise
from app.guards.files import NEEDS, REPOSITORY, shown, why_not


class BrokenGuard(Exception):
    """A file that is no guard; the message is one sentence that names the file."""

    @property
    def message(self) -> str:
        return str(self)


class GuardFile(NamedTuple):
    """A guard by its file.

    Attributes:
        name: of the guard; needed where a file has several.
        replaced: lines of the file, and those that stand there instead; none if both are empty.
        renamed: what the guard is called then.
    """

    path: str
    name: str = ""
    replaced: tuple[str, str] = ("", "")
    renamed: str = ""

    @classmethod
    def of(cls, kind: type[Guard]) -> GuardFile:
        """The file in which a guard was found."""
        known: GuardFile | None = vars(kind).get("_loaded_from")
        return known or cls(inspect.getfile(kind), kind.name)

    def load(self) -> type[Guard]:
        """The guard, in a new module; raises BrokenGuard."""
        try:
            module = self._module()
        except Exception as error:
            raise BrokenGuard(f"{shown(self.path)} cannot be used: {why_not(error, self.path)}") from error
        own = [each for each in vars(module).values() if _is_guard(each) and each.__module__ == module.__name__]
        named = [each for each in own if getattr(each, "name", "") == self.name or not self.name]
        if len(named) != 1:
            raise BrokenGuard(f"{shown(self.path)} has {_what_is_there(own, self.name)}.")
        kind: Any = named[0]
        if lacking := [name for name in NEEDS if not hasattr(kind, name)]:
            raise BrokenGuard(f"{shown(self.path)}: the class {kind.__name__} has no {' and no '.join(lacking)}.")
        if inspect.isabstract(kind):
            raise BrokenGuard(f"{shown(self.path)}: the class {kind.__name__} has no method buy.")
        if not isinstance(kind.promise, Promise):
            raise BrokenGuard(f"{shown(self.path)}: the promise of {kind.__name__} is none of Promise's.")
        kind._loaded_from = self._replace(name=kind.name)
        kind.name = self.renamed or kind.name
        found: type[Guard] = kind
        return found

    def _module(self) -> ModuleType:
        loader = _loader_of(self, Path(self.path).stat().st_mtime_ns)
        spec = ModuleSpec(_module_name(self.path), loader, origin=self.path)
        spec.has_location = True
        module = module_from_spec(spec)
        if not module.__package__:  # dataclasses look for the module of a class
            sys.modules[module.__name__] = module
        loader.exec_module(module)
        return module


class _Loader(ExecutionLoader):
    """Imports a text, as if it stood in the file with this path."""

    def __init__(self, path: str, text: str) -> None:
        self._path, self._text = path, text
        self.get_code = cache(super().get_code)  # type: ignore[method-assign]

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_source(self, fullname: str) -> str:
        return self._text


@lru_cache(maxsize=64)
def _loader_of(file: GuardFile, changed: int) -> _Loader:
    text, path = Path(file.path).read_text(encoding="utf-8"), Path(file.path)
    wrong, right = file.replaced
    if wrong:
        path, text = path.with_stem(f"{path.stem}-mended"), text.replace(wrong, right)
        linecache.cache[str(path)] = (len(text), None, text.splitlines(keepends=True), str(path))
    return _Loader(str(path), text)


def _module_name(path: str) -> str:
    resolved = Path(path).resolve()
    if resolved.is_relative_to(REPOSITORY):
        return ".".join(resolved.relative_to(REPOSITORY).with_suffix("").parts)
    return f"guard_file_{resolved.stem}"


def _is_guard(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Guard) and (not inspect.isabstract(kind) or "name" in vars(kind))


def _what_is_there(own: Sequence[type[Guard]], name: str) -> str:
    if not own:
        return "no guard: a class that extends Guard, with name, promise, description and the method buy"
    names = ", ".join(str(getattr(each, "name", each.__name__)) for each in own)
    return f"no guard named {name}, but {names}" if name else f"several guards, so say which: {names}"
