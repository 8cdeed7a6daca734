"""The testbed of local processes: each can be killed or frozen, and each line between two of them cut."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from app.contract.keys import queue_name
from loadtest.ports import LOOPBACK
from loadtest.stack.apps import Instance, cpu_of
from loadtest.stack.process import ManagedProcess, Resource
from loadtest.stack.proxy import Lines, Proxy
from loadtest.stack.servers import Etcd, EtcdCluster, Redis
from lock import Hold, Mutex, Session, connect

SALE = "demo"
CHILD = f"{queue_name(SALE)}/child"  # a name below that of the sale's lock
TTL_S = 2
LOCK_TIMEOUT_S = 3.0
THREADS = 24  # a connection to Redis each, and each a burden for the line


@dataclass(frozen=True)
class Setup:
    """What a scenario needs of its testbed."""

    members: int = 1  # of etcd
    ttl_s: int = TTL_S  # how long a lease lives
    settings: Mapping[str, str] = field(default_factory=dict)  # of the instances, beyond the usual ones


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
    """One instance of the shop, and the lines that lead to it and from it."""

    name: str
    url: str  # where buyers find it
    instance: Instance
    front: Lines  # the line between buyers and instance
    to_redis: Lines  # from the instance
    to_etcd: Lines  # likewise, to each member

    @property
    def lines(self) -> Lines:
        return Lines((*self.front, *self.to_redis, *self.to_etcd))


class Testbed(Resource):
    """etcd, Redis that has every write on disk, and two shops, with data, logs and section log in `directory`."""

    __test__ = False  # pytest would take it for a test

    def __init__(self, directory: Path, setup: Setup) -> None:
        self.section_log = directory / "section-log"
        self.setup = setup
        self.etcd = EtcdCluster(directory, size=setup.members)
        self.redis = Redis(directory, appendonly=True)
        self._directory = directory
        self._processes: list[ManagedProcess] = [*self.etcd.members, self.redis]
        self.shops = [self._shop(name, cpu_of(number)) for number, name in enumerate(("shop-a", "shop-b"))]

    def _shop(self, name: str, cpu: dict[str, str]) -> Shop:
        to_redis = Proxy(f"{LOOPBACK}:{self.redis.port}")
        to_etcd = Lines(Proxy(member.endpoint) for member in self.etcd.members)
        settings = {
            "FLASHSALE_INSTANCE": name,
            "FLASHSALE_ETCD_ENDPOINTS": ",".join(line.endpoint for line in to_etcd),
            "FLASHSALE_REDIS_URL": f"redis://{to_redis.endpoint}/0",
            "FLASHSALE_SALE": SALE,
            "FLASHSALE_ADMIN_TOKEN": "",
            "FLASHSALE_ADMIN_TOKEN_FILE": "",
            "FLASHSALE_THREADS": str(THREADS),
            "FLASHSALE_LEASE_TTL": str(self.setup.ttl_s),
            "FLASHSALE_LOCK_TIMEOUT": str(LOCK_TIMEOUT_S),
            "FLASHSALE_SECTION_LOG": str(self.section_log),
            **cpu,
            **self.setup.settings,
        }
        instance = Instance(self._directory, env=settings)
        self._processes.append(instance)
        front = Proxy(f"{LOOPBACK}:{instance.port}")
        return Shop(name, f"http://{front.endpoint}", instance, Lines([front]), Lines([to_redis]), to_etcd)

    def heal(self) -> None:
        """Undo every fault: thaw what is frozen, mend the lines, start what is dead; raises ServerError."""
        for shop in self.shops:
            shop.lines.slow_down(0, 0)
            shop.lines.start()
            shop.lines.resume()
        for process in self._processes:
            process.resume()
            process.launch()
        for process in self._processes:
            process.wait_ready()

    def restart_shops(self) -> None:
        """End every purchase under way, by kill -9 of the instances; raises ServerError."""
        for shop in self.shops:
            shop.instance.kill()
        self.heal()

    def start(self) -> None:
        """Everything is as after `heal`."""
        self.heal()

    def stop(self) -> None:
        """Kill everything: nothing in here is to be kept."""
        for process in self._processes:
            process.kill()
        for shop in self.shops:
            shop.lines.refuse()
