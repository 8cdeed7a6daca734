"""What a library keeps its locks in, seen from outside: its keys, its requests, and a proxy that fails."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from loadtest.stack.process import ManagedProcess, Resource
from loadtest.stack.proxy import Lines, Proxy


class StoreMissing(Exception):
    """The server of a library is not on this machine; says what to install."""


class NeedsServer(Exception):
    """A case that breaks a server, or the way to it, cannot be tried: there is none."""


class Store(Resource):
    """A server, or several that stand for one.

    Attributes:
        processes: what is killed and started again.
        proxies: one before each process.
    """

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
        for process in self.processes:
            process.start()
        self.proxies.start()

    def stop(self) -> None:
        for proxy in self.proxies:
            proxy.stop()
        for process in self.processes:
            process.kill()

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


def scratch(directory: Path, name: str) -> Path:
    """A directory for a server's data."""
    made = directory / name
    made.mkdir(parents=True, exist_ok=True)
    return made
