"""What a library keeps its locks in, seen from outside: its keys, its requests, and a proxy that fails."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from loadtest.stack.process import ManagedProcess, Resource
from loadtest.stack.proxy import Lines, Proxy


class NeedsServer(Exception):
    """A case that breaks a server, or the way to it, cannot be tried: there is none."""


class Store(Resource):
    """A server, or several that stand for one, with a proxy before each process."""

    def __init__(self, processes: Sequence[ManagedProcess]) -> None:
        self.processes = processes
        self.proxies = Lines(Proxy(f"127.0.0.1:{process.port}") for process in processes)

    @property
    def address(self) -> str:
        """HOST:PORT, of several with commas between."""
        return ",".join(f"127.0.0.1:{process.port}" for process in self.processes)

    @property
    def proxied(self) -> str:
        """The same through the proxies."""
        return ",".join(proxy.endpoint for proxy in self.proxies)

    def start(self) -> None:
        self.restart()
        self.proxies.start()

    def stop(self) -> None:
        for proxy in self.proxies:
            proxy.stop()
        self.kill()

    def kill(self) -> None:
        for process in self.processes:
            process.kill()

    def restart(self) -> None:
        """After `kill`: ready again, with what it has on disk."""
        for process in self.processes:
            process.start()

    @abstractmethod
    def version(self) -> str:
        """Name and version, such as "etcd 3.6.14"."""

    @abstractmethod
    def keys(self, name: str) -> list[str]:
        """What the server has of the lock of this name."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Take it away, as an operator would by hand."""

    @abstractmethod
    def requests(self) -> int:
        """How many requests the server has served so far."""


class FileStore(Store):
    """No server but a directory of this machine. What breaks a server or the way to it cannot be tried."""

    def __init__(self, directory: Path) -> None:
        self._files = directory / "files"
        self._files.mkdir(parents=True, exist_ok=True)
        super().__init__([])

    @property
    def address(self) -> str:
        return str(self._files)

    @property
    def proxied(self) -> str:
        raise NeedsServer

    def kill(self) -> None:
        raise NeedsServer

    def stop(self) -> None:
        """There is nothing to stop."""

    def version(self) -> str:
        return "none, files of one machine"

    def keys(self, name: str) -> list[str]:
        return [file.name for file in self._files.iterdir() if name in file.name]

    def delete(self, name: str) -> None:
        for key in self.keys(name):
            (self._files / key).unlink()

    def requests(self) -> int:
        return 0
