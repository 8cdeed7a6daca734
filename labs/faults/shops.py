"""The shops of a testbed, and what a scenario may ask of it."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from app.contract.keys import queue_name
from loadtest.stack.apps import Instance
from loadtest.stack.proxy import Lines
from loadtest.stack.servers import Etcd, EtcdCluster
from lock import Hold, Mutex, Session, connect

SALE = "demo"
CHILD = f"{queue_name(SALE)}/child"  # a name below that of the sale's lock
TTL_S = 2
LOCK_TIMEOUT_S = 3.0
THREADS = 24  # a connection to Redis each, and each a burden for the line


@dataclass(frozen=True)
class Setup:
    """What a scenario needs of its testbed.

    Attributes:
        members: of etcd.
        ttl_s: how long a lease lives.
        settings: of the instances, beyond the usual ones.
    """

    members: int = 1
    ttl_s: int = TTL_S
    settings: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def stranger(endpoints: str, *, ttl: int, timeout: float) -> Iterator[Hold]:
    """Hold a name below that of the sale's lock, as another client; raises LockError."""
    with (
        connect(endpoints) as client,
        Session(client, ttl=ttl, name="stranger") as session,
        Mutex(session, CHILD).acquire(timeout=timeout) as held,
    ):
        yield held


def leader_of(etcd: EtcdCluster) -> Etcd | None:
    """The member that leads, as it says itself."""
    return next((member for member in etcd.members if _leads(member)), None)


def _leads(member: Etcd) -> bool:
    try:
        with urllib.request.urlopen(f"http://{member.endpoint}/metrics", timeout=2) as metrics:
            return b"\netcd_server_is_leader 1\n" in metrics.read()
    except OSError:
        return False


@dataclass(frozen=True)
class Shop:
    """One instance of the shop, and the lines that lead to it and from it.

    Attributes:
        url: where buyers find it.
        front, to_redis, to_etcd: the line between buyers and instance, that to Redis and those to the
            members of etcd.
    """

    name: str
    url: str
    instance: Instance
    front: Lines
    to_redis: Lines
    to_etcd: Lines

    @property
    def lines(self) -> Lines:
        return Lines((*self.front, *self.to_redis, *self.to_etcd))
