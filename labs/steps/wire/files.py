"""Files that purchases share. To open, make, find or remove one is a command, and so is a lock of one.

Of a file that is open for both reading and writing, each read and each write is one, too. Other programs and databases
in files cannot be stopped; that a purchase uses them is noted.
"""

from __future__ import annotations

import builtins
import fcntl
import io
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.steps.wire import end_if_killed, wire

if TYPE_CHECKING:
    from labs.steps.stepped import SteppedPurchase

SHARED = ("/tmp/", "/var/tmp/", "/dev/shm/")
_ONE = ("open", "mkdir", "rmdir", "unlink", "remove", "stat", "lstat", "access", "truncate", "listdir", "scandir")
_TWO = ("link", "symlink", "rename", "replace")
_BY_NUMBER = ("read", "write", "pread", "pwrite", "ftruncate")
_CANNOT_BE_STOPPED = {
    "sqlite3.connect": "a database in a file",
    "subprocess.Popen": "another program",
    "os.fork": "another process",
    "os.posix_spawn": "another program",
    "socket.bind": "an address that one process alone can have",
}
_open, _pread = io.open, os.pread
MOST = 1 << 20  # bytes of a file


@cache
def wrap() -> None:
    """Have what this process does to files tell it, once `Wire.shared` says which."""
    unlink = os.unlink
    for name, paths in (*((name, 1) for name in _ONE), *((name, 2) for name in _TWO)):
        setattr(os, name, _stepping(getattr(os, name), name, paths))
    for each in vars(tempfile._TemporaryFileCloser).values():  # type: ignore[attr-defined]
        if defaults := getattr(each, "__defaults__", None):  # which were bound before
            each.__defaults__ = tuple(os.unlink if default is unlink else default for default in defaults)
    for name in _BY_NUMBER:
        setattr(os, name, _of_descriptor(getattr(os, name), name))
    for name in ("readinto", "readall", "write", "truncate"):
        setattr(_Both, name, _of_both(getattr(io.FileIO, name), name))
    builtins.open = io.open = _stepping(_opened, "open", 1)
    for name in ("flock", "lockf"):
        setattr(fcntl, name, _locking(getattr(fcntl, name), name))
    for name in ("dbm", "dbm.gnu", "dbm.ndbm"):
        with suppress(ImportError):  # not every Python has all of them
            module: Any = import_module(name)
            module.open = _telling("sqlite3.connect", module.open)
    sys.addaudithook(_note)


def _note(event: str, arguments: Any) -> None:
    if event in _CANNOT_BE_STOPPED and wire.owner() is not None:
        wire.others.add(_CANNOT_BE_STOPPED[event])
    elif event == "mmap.__new__" and wire.owner() is not None and _shared(_path_of(arguments[0])):
        wire.others.add("memory that processes share")


def _telling(event: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any, **options: Any) -> Any:
        _note(event, ())
        return real(*given, **options)

    return call


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
        return _exchanged(stepped, f"{name} {shown}", lambda: real(*mapped, *given[paths:], **options))

    return call


class _Both(io.FileIO):
    """A file that is open for reading and writing."""


def _opened(path: Any, mode: str = "r", buffering: int = -1, *texts: Any, **options: Any) -> Any:
    if "+" not in mode or _shared(path) is None or buffering == 0 or "opener" in options:
        return _open(path, mode, buffering, *texts, **options)
    both = io.BufferedRandom(_Both(path, mode.translate({ord("b"): None, ord("t"): None})))
    return both if "b" in mode else io.TextIOWrapper(both, *texts, **options)


def _of_both(real: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(file: io.FileIO, *given: Any) -> Any:
        if (stepped := wire.owner()) is None:
            return real(file, *given)
        shown = f"{name} {Path(str(file.name)).name}"
        return _exchanged(stepped, shown, lambda: real(file, *given), file.fileno())

    return call


def _of_descriptor(real: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(number: int, *given: Any) -> Any:
        stepped, path = wire.owner(), wire.shared and _shared(_path_of(number))
        if stepped is None or not path:
            return real(number, *given)
        return _exchanged(stepped, f"{name} {Path(path).name}", lambda: real(number, *given), number)

    return call


def _exchanged(stepped: SteppedPurchase, command: str, call: Callable[[], Any], number: int = -1) -> Any:
    with stepped.exchange():
        fate = stepped.sending(command, writes=False)
        try:
            result = call()
        except OSError as error:
            end_if_killed(fate)
            stepped.answered(f"({type(error).__name__})")
            raise
        end_if_killed(fate)
        stepped.answered(_told(result, number))
        return result


def _told(result: Any, number: int) -> str:
    """What was found, as far as it is known: of a file, all. Nothing is opened here, as a close would end a `lockf`."""
    if isinstance(result, io.IOBase) and result.readable():
        number = result.fileno()
    if number >= 0:
        return repr(_pread(number, MOST, 0))
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
                now = operation if operation & fcntl.LOCK_UN else operation | fcntl.LOCK_NB
                return _exchanged(stepped, command, lambda: real(file, now, *more))  # noqa: B023
            except BlockingIOError:
                if operation & fcntl.LOCK_NB:
                    raise
            stepped.pauses()

    return lock


def _path_of(number: int) -> str | None:
    """Of the file that is open; a pipe has none."""
    try:
        path = str(Path(f"/proc/self/fd/{number}").readlink())
    except OSError:
        return None
    return path if path.startswith("/") else None
