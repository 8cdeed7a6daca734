"""Files that purchases share. To open, make, find or remove one is a command, and so is a lock of one.

Other programs and databases in files cannot be stopped; that a purchase uses them is noted.
"""

from __future__ import annotations

import builtins
import fcntl
import io
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from labs.steps.wire import Stepped, end_if_killed, wire

SHARED = ("/tmp/", "/var/tmp/")
_ONE = ("open", "mkdir", "rmdir", "unlink", "remove", "stat", "lstat", "access", "truncate", "listdir", "scandir")
_TWO = ("link", "symlink", "rename", "replace")
_CANNOT_BE_STOPPED = {
    "sqlite3.connect": "a database in a file",
    "subprocess.Popen": "another program",
    "os.fork": "another process",
    "os.posix_spawn": "another program",
}
_open = io.open


@cache
def wrap() -> None:
    """Have what this process does to files tell it, once `Wire.shared` says which."""
    unlink = os.unlink
    for name, paths in (*((name, 1) for name in _ONE), *((name, 2) for name in _TWO)):
        setattr(os, name, _stepping(getattr(os, name), name, paths))
    for each in vars(tempfile._TemporaryFileCloser).values():  # type: ignore[attr-defined]
        if defaults := getattr(each, "__defaults__", None):  # which were bound before
            each.__defaults__ = tuple(os.unlink if default is unlink else default for default in defaults)
    builtins.open = io.open = _stepping(_open, "open", 1)
    for name in ("flock", "lockf"):
        setattr(fcntl, name, _locking(getattr(fcntl, name), name))
    sys.addaudithook(_note)


def _note(event: str, _: object) -> None:
    if event in _CANNOT_BE_STOPPED and wire.owner() is not None:
        wire.others.add(_CANNOT_BE_STOPPED[event])


def _shared(path: Any) -> str | None:
    """Where a file lies that purchases share, in the thread of one."""
    is_path = isinstance(path, (str, os.PathLike)) and wire.shared is not None
    return wire.shared(str(os.fspath(path))) if is_path and wire.shared is not None else None


def _stepping(real: Callable[..., Any], name: str, paths: int) -> Callable[..., Any]:
    def call(*given: Any, **options: Any) -> Any:
        found = [_shared(path) for path in given[:paths]]
        if not any(found):
            return real(*given, **options)
        mapped = [path or own for path, own in zip(found, given, strict=False)]
        stepped = wire.owner()
        if stepped is None:
            return real(*mapped, *given[paths:], **options)
        shown = " ".join(Path(path).name for path in mapped)
        return _exchanged(stepped, f"{name} {shown}", lambda: real(*mapped, *given[paths:], **options), mapped[0])

    return call


def _exchanged(stepped: Stepped, command: str, call: Callable[[], Any], path: str) -> Any:
    with stepped.exchange():
        fate = stepped.sending(command, writes=False)
        try:
            result = call()
        except OSError as error:
            end_if_killed(fate)
            stepped.answered(f"({type(error).__name__})")
            raise
        end_if_killed(fate)
        stepped.answered(_told(result, path))
        return result


def _told(result: Any, path: str) -> str:
    """What was found, as far as it is known."""
    if isinstance(result, io.IOBase) and result.readable():
        with _open(path, "rb") as file:
            return repr(file.read())
    return str(sorted(result)) if isinstance(result, list) else str(result) if isinstance(result, bool) else "done"


def _locking(real: Callable[..., Any], name: str) -> Callable[..., Any]:
    def lock(file: Any, operation: int, *more: Any) -> Any:
        stepped = wire.owner()
        number = file if isinstance(file, int) else file.fileno()
        path = _shared(getattr(file, "name", None)) or _shared(_path_of(number))
        if stepped is None or path is None:
            return real(file, operation, *more)
        command = f"{name} {Path(path).name}{' free' if operation & fcntl.LOCK_UN else ''}"
        while True:
            try:
                call = lambda: real(file, operation | fcntl.LOCK_NB, *more)  # noqa: E731
                return _exchanged(stepped, command, call, path)
            except BlockingIOError:
                if operation & fcntl.LOCK_NB:
                    raise
            stepped.pauses()

    return lock


def _path_of(number: int) -> str | None:
    try:
        return str(Path(f"/proc/self/fd/{number}").readlink())
    except OSError:
        return None
