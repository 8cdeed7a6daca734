"""Guards as files, from anywhere on the disk: each load is a new module, which remembers nothing of an earlier one."""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from app.guards.base import Guard, Promise
from app.guards.files import NEEDS, REPOSITORY, shown, why_not


class BrokenGuard(Exception):
    """A file that is no guard; the message is one sentence that names the file."""


class GuardFile(NamedTuple):
    """A guard by its file."""

    path: str
    name: str = ""  # of the guard; needed where a file has several
    # Lines of the file, and those that stand there instead; none if both are empty.
    replaced: tuple[str, str] = ("", "")
    renamed: str = ""  # what the guard is called then

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
        code = _code_of(self, Path(self.path).stat().st_mtime_ns)
        module = ModuleType(_module_name(self.path))
        module.__file__, module.__package__ = code.co_filename, module.__name__.rpartition(".")[0]
        if not module.__package__:  # dataclasses look for the module of a class
            sys.modules[module.__name__] = module
        exec(code, vars(module))
        return module


@lru_cache(maxsize=64)
def _code_of(file: GuardFile, changed: int) -> CodeType:
    path, source = Path(file.path), Path(file.path).read_bytes()
    wrong, right = file.replaced
    if wrong:
        path, text = path.with_stem(f"{path.stem}-mended"), source.decode().replace(wrong, right)
        linecache.cache[str(path)] = (len(text), None, text.splitlines(keepends=True), str(path))
        source = text.encode()
    return compile(source, str(path), "exec", dont_inherit=True)


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
