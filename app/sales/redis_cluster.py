"""Redis as a cluster: a client for each hash tag, a plain `redis.Redis` at the node that has its slot just now.

redis-py's RedisCluster connects when it is made, repeats what was not answered, and takes no script into a pipeline.
Which node has which slot is asked once a second by the command that comes then. So a failover or a slot that moves is
followed within a second; until then, and while a slot has no node, commands fail as without Redis.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import redis
from redis.crc import key_slot

from app.sales.redis_client import TIMEOUT, Client, NotSent, Pool, Refused, make_pool

REFRESH_S = 1.0


def connect(url: str, *, connections: int, timeout: float = TIMEOUT, replicas: int = 0) -> Client:
    """A client of the Redis at `url`; nothing is sent before its first command.

    Args:
        url: ``redis://`` or ``rediss://``; or of some nodes of a cluster
            ``redis+cluster://[USER:PASSWORD@]HOST:PORT,HOST:PORT[?OPTIONS]``. Then use `Client.for_tag`.
        connections: most connections at once, to each node; one for each thread that uses the client.
        timeout: seconds until a command without an answer fails.
        replicas: as of `Client`.
    """
    pool = partial(make_pool, connections=connections, timeout=timeout)
    scheme, is_cluster, rest = url.partition("+cluster://")
    if not is_cluster:
        client = Client(connection_pool=pool(url))
        client.replicas = replicas
        return client
    place, _, options = rest.partition("?")
    login, at, seeds = place.rpartition("@")
    nodes = Nodes(seeds.split(","), lambda address: pool(f"{scheme}://{login}{at}{address}?{options}"))
    return ClusterClient(nodes, "", replicas)


class Nodes:
    """The nodes of one cluster and their slots; `seeds` are ``HOST:PORT`` of some. Thread-safe."""

    def __init__(self, seeds: list[str], make_pool: Callable[[str], Pool]) -> None:
        self._seeds = self._known = seeds
        self._make_pool = make_pool
        self._pools: dict[str, Pool] = {}
        self._owners: list[tuple[int, int, str]] = []
        self._fresh_until = 0.0
        self._refreshing = threading.Lock()

    def pool_at(self, address: str) -> Pool:
        return self._pools.get(address) or self._pools.setdefault(address, self._make_pool(address))

    def pool_of(self, slot: int) -> Pool:
        """The connections to the node that has the slot; raises NotSent if none is known."""
        if time.monotonic() > self._fresh_until and self._refreshing.acquire(blocking=not self._owners):
            try:
                if time.monotonic() > self._fresh_until:  # or another thread did it while this one waited
                    self.refresh()
            finally:
                self._refreshing.release()
        for first, last, address in self._owners:
            if first <= slot <= last:
                return self.pool_at(address)
        raise NotSent(f"no node of the Redis Cluster has slot {slot}")

    def refresh(self) -> None:
        """Ask one node after the other which has which slot; keep what is known if none answers."""
        for address in self._known:
            try:
                client: Any = redis.Redis(connection_pool=self.pool_at(address))
                ranges = client.execute_command("CLUSTER SLOTS")
            except (redis.ConnectionError, redis.TimeoutError, Refused):
                continue
            here = address.rpartition(":")[0].strip("[]")
            nodes = [[_address(host or here, port) for host, port, *_ in each[2:]] for each in ranges]
            self._owners = [(first, last, owner) for (first, last, *_), (owner, *_) in zip(ranges, nodes, strict=True)]
            self._known = list(dict.fromkeys([address, *chain(*nodes), *self._seeds]))
            break
        self._fresh_until = time.monotonic() + REFRESH_S

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class SlotPool:
    """The connections to the node that has one slot, whichever that is when one is asked for; raises NotSent."""

    def __init__(self, nodes: Nodes, slot: int) -> None:
        self._nodes = nodes
        self._slot = slot

    def node(self) -> Pool:
        """The connections to that node, for all slots that it has."""
        return self._nodes.pool_of(self._slot)

    def get_connection(self, *_: Any, **__: Any) -> Any:
        pool = self.node()
        connection = pool.get_connection()
        connection.home = pool
        return connection

    def release(self, connection: Any) -> None:
        connection.home.release(connection)

    def __getattr__(self, name: str) -> Any:  # settings, which are those of every node
        return getattr(self._nodes.pool_at(self._nodes._known[0]), name)


class ClusterClient(Client):
    """The client for all keys with one hash tag; before `for_tag`, for those without one."""

    def __init__(self, nodes: Nodes, tag: str, replicas: int) -> None:
        self._slot_pool = SlotPool(nodes, key_slot(tag.encode()))
        super().__init__(connection_pool=self._slot_pool)  # type: ignore[arg-type]
        self.nodes, self.replicas = nodes, replicas

    def for_tag(self, tag: str) -> Client:
        return ClusterClient(self.nodes, tag, self.replicas)

    def node(self) -> object:
        return self._slot_pool.node()

    def close(self) -> None:
        """Close the connections to all nodes, which the clients for other tags share."""
        self.nodes.close()
