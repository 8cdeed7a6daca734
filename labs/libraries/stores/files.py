"""No server: a directory of this machine, for locks that are files."""

from __future__ import annotations

from pathlib import Path

from labs.libraries.stores.store import NeedsServer, Store, scratch


class FileStore(Store):
    """The files of one machine. What breaks a server or the way to it cannot be tried."""

    def __init__(self, directory: Path) -> None:
        self._files = scratch(directory, "files")
        super().__init__([])

    @property
    def address(self) -> str:
        return str(self._files)

    @property
    def proxied(self) -> str:
        raise NeedsServer

    def kill(self) -> None:
        raise NeedsServer

    def version(self) -> str:
        return "none, files of one machine"

    def keys(self, name: str) -> list[str]:
        return [file.name for file in self._files.iterdir() if name in file.name]

    def delete(self, name: str) -> None:
        for key in self.keys(name):
            (self._files / key).unlink()

    def requests(self) -> int:
        return 0
