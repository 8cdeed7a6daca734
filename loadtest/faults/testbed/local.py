"""The testbed of local processes: each can be killed or frozen, and each line between two of them cut."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from loadtest.faults.testbed.protocols import LOCK_TIMEOUT_S, SALE, THREADS, TTL_S, Shop
from loadtest.stack.apps import Instance
from loadtest.stack.ports import LOOPBACK
from loadtest.stack.process import Lifetime, Process
from loadtest.stack.proxy import Proxy
from loadtest.stack.servers import EtcdCluster, Redis


class LocalTestbed(Lifetime):
    """etcd with one member or more, Redis that has every write on disk, and two shops.

    Args:
        directory: for data, logs and section log.
        members: of etcd.
        lines: whether the lines can be cut; without, all connect directly, and the sale is faster.
        ttl_s: how long a lease lives.
        settings: more of the instances' settings.
    """

    def __init__(
        self,
        directory: Path,
        *,
        members: int = 1,
        lines: bool = True,
        ttl_s: int = TTL_S,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.section_log = directory / "section-log"
        self.ttl_s = ttl_s
        self.etcd = EtcdCluster(directory, size=members)
        self.redis = Redis(directory, appendonly=True)
        self._directory = directory
        self._settings = settings or {}
        self._instances: list[Instance] = []
        self.shops = [self._shop(name, lines=lines) for name in ("shop-a", "shop-b")]

    def _shop(self, name: str, *, lines: bool) -> Shop:
        to_redis = Proxy(f"{LOOPBACK}:{self.redis.port}")
        to_etcd = [Proxy(member.endpoint) for member in self.etcd.members]
        settings = {
            "FLASHSALE_INSTANCE": name,
            "FLASHSALE_ETCD_ENDPOINTS": ",".join(line.endpoint for line in to_etcd) if lines else self.etcd.endpoints,
            "FLASHSALE_REDIS_URL": f"redis://{to_redis.endpoint}/0" if lines else self.redis.url,
            "FLASHSALE_SALE": SALE,
            "FLASHSALE_THREADS": str(THREADS),
            "FLASHSALE_LEASE_TTL": str(self.ttl_s),
            "FLASHSALE_LOCK_TIMEOUT": str(LOCK_TIMEOUT_S),
            "FLASHSALE_SECTION_LOG": str(self.section_log),
            **self._settings,
        }
        instance = Instance(self._directory, env=settings)
        self._instances.append(instance)
        if not lines:
            return Shop(name, instance.url, instance)
        front = Proxy(f"{LOOPBACK}:{instance.port}")
        return Shop(name, f"http://{front.endpoint}", instance, [front, to_redis, *to_etcd])

    @property
    def _processes(self) -> list[Process]:
        return [*self.etcd.members, self.redis, *self._instances]

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

    def start(self) -> None:
        """Everything is as after `heal`."""
        self.heal()

    def stop(self) -> None:
        """Kill everything: nothing in here is to be kept."""
        for process in self._processes:
            process.kill()
        for shop in self.shops:
            for line in shop.lines:
                line.refuse()
