"""A stack in which everything can be broken: each process killed or frozen, each line between two of them cut."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from loadtest.ports import LOOPBACK
from loadtest.process import Process
from loadtest.proxy import Proxy
from loadtest.servers import EtcdCluster, Redis
from loadtest.stack import Instance

if TYPE_CHECKING:
    from typing_extensions import Self

SALE = "demo"
TTL_S = 2
LOCK_TIMEOUT_S = 3.0
THREADS = 24  # a connection to Redis each, and each a burden for the line


class Shop:
    """One instance of the shop, and the lines that lead to it and from it.

    Attributes:
        front: between the buyers and the instance.
        etcd_lines: between the instance and each member of etcd.
        redis_line: between the instance and Redis.
    """

    def __init__(self, name: str, directory: Path, etcd: EtcdCluster, redis: Redis, *, lines: bool, ttl_s: int) -> None:
        self.name = name
        self.etcd_lines = [Proxy(member.endpoint) for member in etcd.members]
        self.redis_line = Proxy(f"{LOOPBACK}:{redis.port}")
        etcd_at, redis_at = etcd.endpoints, redis.url
        if lines:
            etcd_at = ",".join(line.endpoint for line in self.etcd_lines)
            redis_at = f"redis://{self.redis_line.endpoint}/0"
        settings = {
            "FLASHSALE_INSTANCE": name,
            "FLASHSALE_ETCD_ENDPOINTS": etcd_at,
            "FLASHSALE_REDIS_URL": redis_at,
            "FLASHSALE_SALE": SALE,
            "FLASHSALE_THREADS": str(THREADS),
            "FLASHSALE_LEASE_TTL": str(ttl_s),
            "FLASHSALE_LOCK_TIMEOUT": str(LOCK_TIMEOUT_S),
            "FLASHSALE_EVIDENCE": str(directory / "evidence"),
        }
        self.instance = Instance(directory, env=settings)
        self.front = Proxy(f"{LOOPBACK}:{self.instance.port}")
        self.url = f"http://{self.front.endpoint}" if lines else self.instance.url

    @property
    def lines(self) -> list[Proxy]:
        return [self.front, self.redis_line, *self.etcd_lines]


class Arena:
    """etcd with one member or more, Redis that has every write on disk, and two shops.

    Args:
        directory: for data, logs and evidence.
        members: of etcd.
        lines: whether the lines can be cut; without, everybody is connected directly, and the sale is faster.
        ttl_s: how long a lease lives.
    """

    def __init__(self, directory: Path, *, members: int = 1, lines: bool = True, ttl_s: int = TTL_S) -> None:
        self.ttl_s = ttl_s
        self.evidence = directory / "evidence"
        self.etcd = EtcdCluster(directory, size=members)
        self.redis = Redis(directory, appendonly=True)
        self.shops = [
            Shop(name, directory, self.etcd, self.redis, lines=lines, ttl_s=ttl_s) for name in ("shop-a", "shop-b")
        ]

    @property
    def _processes(self) -> list[Process]:
        return [*self.etcd.members, self.redis, *(shop.instance for shop in self.shops)]

    def heal(self) -> None:
        """Undo every fault: thaw what is frozen, mend the lines, start what is dead; raises ServerError."""
        for shop in self.shops:
            for line in shop.lines:
                line.delay_s = line.jitter_s = 0.0
                line.start()
                line.resume()
        for process in self._processes:
            process.resume()
            process.launch()
        for process in self._processes:
            process.wait_ready()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._stop)
            self.heal()
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        """Kill everything: nothing in here is to be kept."""
        for process in self._processes:
            process.kill()
        for shop in self.shops:
            for line in shop.lines:
                line.refuse()
