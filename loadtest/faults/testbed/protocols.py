"""Where scenarios are played: a stack in which everything can be broken. See `local` and `compose` for the two."""

from __future__ import annotations

import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from loadtest.stack.proxy import Lines
from loadtest.target.names import queue_name

SALE = "demo"
CHILD = f"{queue_name(SALE)}/child"  # a name below that of the sale's lock
TTL_S = 2
LOCK_TIMEOUT_S = 3.0
NO_LINES = Lines()
THREADS = 24  # a connection to Redis each, and each a burden for the line


class Server(Protocol):
    """A process, or a container; every method raises ServerError where it cannot do what it says."""

    name: str
    frozen: bool

    @property
    def running(self) -> bool: ...

    def launch(self) -> None:
        """Start it without waiting for it, unless it runs."""

    def wait_ready(self) -> None: ...

    def start(self) -> None:
        """Launch it and wait until it is ready."""

    def kill(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class Member(Server, Protocol):
    """One member; `endpoint` is HOST:PORT."""

    @property
    def endpoint(self) -> str: ...


class EtcdServers(Protocol):
    """All of etcd; `endpoints` is separated by commas."""

    @property
    def members(self) -> Sequence[Member]: ...

    @property
    def endpoints(self) -> str: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


def leader_of(etcd: EtcdServers) -> Member | None:
    """The member that leads, as it says itself."""
    return next(filter(_leads, etcd.members), None)


def _leads(member: Member) -> bool:
    try:
        with urllib.request.urlopen(f"http://{member.endpoint}/metrics", timeout=2) as metrics:
            return b"\netcd_server_is_leader 1\n" in metrics.read()
    except OSError:
        return False


class RedisServers(Protocol):
    """All nodes of Redis, of which there may be one only."""

    @property
    def members(self) -> Sequence[Server]: ...

    @property
    def url(self) -> str: ...

    def start(self) -> None: ...

    def kill(self) -> None: ...


@dataclass(frozen=True)
class Shop:
    """One instance of the shop, and the lines that lead to it and from it.

    Attributes:
        url: where buyers find it.
        front, to_redis, to_etcd: the line between buyers and instance, those to the nodes of Redis and those to the
            members of etcd; empty where there is nothing that could be cut.
    """

    name: str
    url: str
    instance: Server
    front: Lines = NO_LINES
    to_redis: Lines = NO_LINES
    to_etcd: Lines = NO_LINES

    @property
    def lines(self) -> Lines:
        """All of them."""
        return Lines((*self.front, *self.to_redis, *self.to_etcd))


class Testbed(Protocol):
    """etcd, Redis that has every write on disk, and two shops.

    Attributes:
        section_log: where the shops record their critical sections.
        ttl_s: how long a lease lives.
    """

    section_log: Path
    ttl_s: int

    @property
    def etcd(self) -> EtcdServers: ...

    @property
    def redis(self) -> RedisServers: ...

    @property
    def shops(self) -> Sequence[Shop]: ...

    def heal(self) -> None:
        """Undo every fault: thaw what is frozen, mend the lines, start what is dead; raises ServerError."""
