"""A local Redis Cluster: it is one from its first start on, and a replica takes over."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import redis
from redis.crc import key_slot

from labs.shards.local_cluster import SLOTS, RedisCluster
from loadtest import ports
from loadtest.shop_client.ledgers import UNREADABLE, Ledgers
from loadtest.stack.servers import Redis
from tests.support.waiting import wait_until


def test_a_replica_takes_over_from_a_killed_master(tmp_path: Path) -> None:
    """The cluster has every slot from the start and again soon after, and the ledgers are read there."""
    with (
        RedisCluster(tmp_path, masters=3, settings={}, appendonly=True) as nodes,
        closing(redis.RedisCluster(ports.LOOPBACK, nodes.members[-1].port, decode_responses=True)) as client,
    ):
        slots = sorted(client.cluster_slots())
        assert [low for low, _ in slots] == [0, *(high + 1 for _, high in slots[:-1])]
        assert slots[-1][1] == SLOTS - 1
        client.set("color", "blue")
        number = key_slot(b"color") * nodes.masters // SLOTS
        master, replica = nodes.members[number], nodes.members[number + nodes.masters]
        assert redis.Redis(port=master.port).wait(1, 20_000) == 1
        assert nodes.nodes_of("color") == [master, replica]
        ledgers = Ledgers(nodes.url, "demo", timeout=5.0)
        assert ledgers.read().orders == 0
        master.kill()
        wait_until(lambda: role(replica) == "master")
        wait_until(lambda: readable(ledgers))
        ledgers.close()
        assert client.get("color") == "blue"
        master.start()
        wait_until(lambda: role(master) == "slave")


def readable(ledgers: Ledgers) -> bool:
    with suppress(*UNREADABLE):
        return ledgers.read().orders == 0
    return False


def role(node: Redis) -> str:
    about: Any = redis.Redis(port=node.port).info("replication")
    return str(about["role"])
