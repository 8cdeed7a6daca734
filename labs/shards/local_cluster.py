"""A Redis Cluster on loopback: masters that share the 16,384 hash slots, and a replica of each if wanted."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import redis
from redis.crc import key_slot

from loadtest.ports import LOOPBACK, free_port
from loadtest.stack.servers import PROBE_TIMEOUT_S, Cluster, Redis
from loadtest.stack.stack import REDIS_PORT, Stack

SLOTS = 16384
NODE_TIMEOUT_MS = 1500  # after so long without an answer the others take a node for dead


class ClusterNode(Redis):
    """A master, or the replica of one; ready when it serves its part, or follows its master.

    Args:
        number: of the master, from 1.
        replica: whether it is the replica of that master.
    """

    def __init__(self, directory: Path, port: int, *, appendonly: bool, number: int, replica: bool) -> None:
        name = f"{'replica' if replica else 'redis'}-{number}"
        super().__init__(directory, port, appendonly=appendonly, name=name)
        self.cluster: RedisCluster
        self.replica = replica
        self._number = number
        self._bus_port = free_port()

    def command(self) -> list[str]:
        command, nodes = super().command(), self.directory / self.name / "nodes.conf"
        if not nodes.exists():  # it finds itself in the cluster at its first start, so that none has to be formed
            epoch = self.cluster.masters
            lines = [node.described(myself=node is self) for node in self.cluster.members]
            nodes.write_text("\n".join([*lines, f"vars currentEpoch {epoch} lastVoteEpoch 0", ""]), encoding="utf-8")
        return command

    def described(self, *, myself: bool) -> str:
        """Its line in nodes.conf."""
        number, count = self._number, self.cluster.masters
        role = f"slave {number:040x}" if self.replica else "master -"
        slots = "" if self.replica else f" {SLOTS * (number - 1) // count}-{SLOTS * number // count - 1}"
        flags = f"{'myself,' if myself else ''}{role} 0 0 {number}"
        return f"{number + self.replica * count:040x} {LOOPBACK}:{self.port}@{self._bus_port} {flags} connected{slots}"

    def flags(self) -> dict[str, str]:
        return {
            **super().flags(),
            "cluster-enabled": "yes",
            "cluster-port": str(self._bus_port),
            "cluster-node-timeout": str(NODE_TIMEOUT_MS),
            "cluster-require-full-coverage": "no",  # the other shards go on without a lost one
            "repl-diskless-sync-delay": "0",
            **self.cluster.settings,
        }

    def is_ready(self) -> bool:
        client = redis.Redis(LOOPBACK, self.port, socket_timeout=PROBE_TIMEOUT_S, decode_responses=True)
        with client, suppress(redis.RedisError):
            cluster: Any = client.cluster("INFO")
            replication: Any = client.info("replication")
            return bool(cluster["cluster_state"] == "ok" and replication.get("master_link_status", "up") == "up")
        return False


class RedisCluster(Cluster[ClusterNode]):
    """`masters` nodes, and one replica of each if there are `settings`: a failover takes three masters at least.

    Args:
        port: of the first master; the others have those behind it. 0: any free ones.
        appendonly: as of `Redis`.
        settings: of a cluster with replicas, besides the usual ones; None: without replicas.

    Attributes:
        members: all nodes, masters first.
    """

    def __init__(
        self,
        directory: Path,
        port: int = 0,
        *,
        masters: int,
        settings: Mapping[str, str] | None = None,
        appendonly: bool = False,
    ) -> None:
        self.masters = masters
        self.settings = settings or {}
        self.members = [
            ClusterNode(
                directory,
                port and port + index,
                appendonly=appendonly,
                number=index % masters + 1,
                replica=index >= masters,
            )
            for index in range(masters * (1 if settings is None else 2))
        ]
        for node in self.members:
            node.cluster = self

    @property
    def url(self) -> str:
        """As FLASHSALE_REDIS_URL takes it."""
        masters = self.members[: self.masters]
        return f"redis+cluster://{','.join(f'{LOOPBACK}:{node.port}' for node in masters)}"

    def nodes_of(self, key: str) -> list[ClusterNode]:
        """The master that has `key` just now, and its replica; raises redis.RedisClusterException."""
        seeds: Any = [redis.cluster.ClusterNode(LOOPBACK, node.port) for node in self.members]  # type: ignore[no-untyped-call]
        with redis.RedisCluster(startup_nodes=seeds, socket_timeout=PROBE_TIMEOUT_S) as client:
            owners = client.nodes_manager.slots_cache[key_slot(key.encode())]
        ports = [owner.port for owner in owners]
        return sorted((node for node in self.members if node.port in ports), key=lambda node: ports.index(node.port))


def use_cluster(stack: Stack, masters: int) -> None:
    """Give a stack so many masters, instead of its single Redis; before its start. 1: change nothing."""
    if masters > 1:
        single = stack.redis.members[0]
        port = single.port if single.port == REDIS_PORT else 0
        stack.use_redis(RedisCluster(single.directory, port, masters=masters, appendonly=single.appendonly))
