"""form_cluster.py: the nodes of a Redis Cluster find each other again, wherever they start."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.sales.redis_client import connect
from labs.shards import form_cluster
from loadtest.ports import free_port, is_occupied
from loadtest.stack.servers import Redis, redis_answers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all addresses of 127.0.0.0/8")


class Node(Redis):
    """A node that may have another address at its next start; all have the same port, as in containers."""

    host: str
    common_port: int

    def flags(self) -> dict[str, str]:
        where = {"bind": self.host, "bind-source-addr": self.host, "port": str(self.common_port)}
        return {**super().flags(), **where, "cluster-enabled": "yes", "cluster-node-timeout": "2000"}

    def is_ready(self) -> bool:
        return redis_answers(f"redis://{self.host}:{self.common_port}")


@pytest.mark.parametrize("order", ["1 2 3", "4 1 2"])
def test_nodes_with_other_addresses_are_one_cluster_again(tmp_path: Path, order: str) -> None:
    """Three new nodes share the slots; started again with their data where others were, they serve what they had."""
    # The bus has the port 10000 behind it, which no client's own port should be (they begin at 32768).
    port = next(port for port in iter(free_port, 0) if port < 22_768 and not is_occupied(port + 10_000))
    nodes = [Node(tmp_path, appendonly=True, name=f"redis-{number}") for number in (1, 2, 3)]
    names = [f"sale:{{{number}}}:stock" for number in range(20)]

    def is_together() -> bool:
        looked = [form_cluster.Node.at(node.host, port) for node in nodes]
        form_cluster.bring_together(looked, port)
        return form_cluster.is_together(looked, port)

    for hosts in ("1 2 3", order):
        with ExitStack() as running:
            for node, host in zip(nodes, hosts.split(), strict=True):
                node.host, node.common_port = f"127.0.0.{host}", port
                running.enter_context(node)
            wait_until(is_together, timeout=60)
            urls = ",".join(f"{node.host}:{port}" for node in nodes)
            client = running.enter_context(connect(f"redis+cluster://{urls}", connections=2))
            counts = [client.incr(name) for name in names]
    assert counts == [2] * len(names)
