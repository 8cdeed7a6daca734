"""The clients of Redis that this lab has instead of the usual ones, see `app.contract.labs`.

For shop and board by `connect`, for Locust by `reader`: what is judged shares no code with its witness.
"""

from __future__ import annotations

from typing import Any

import redis

CLUSTER = "+cluster://"  # as in redis+cluster://HOST:PORT,HOST:PORT


def connect(url: str, *, connections: int, timeout: float) -> redis.Redis | None:
    """The client of a cluster, or of a Redis whose replicas are waited for; None: the usual one."""
    from app.sales.redis_client import make_pool
    from labs.shards.client import ReplicatedClient, cluster
    from labs.shards.settings import ShardSettings

    replicas = ShardSettings.from_environment().redis_replicas
    if CLUSTER in url:
        return cluster(url, connections=connections, timeout=timeout, replicas=replicas)
    if not replicas:
        return None
    client = ReplicatedClient(connection_pool=make_pool(url, connections=connections, timeout=timeout))
    client.replicas = replicas
    return client


def reader(url: str, timeout: float) -> Any:
    """redis-py's client of a cluster, which asks it for its nodes when it is made; None: the usual client."""
    from redis.backoff import NoBackoff
    from redis.cluster import ClusterNode
    from redis.retry import Retry

    scheme, is_cluster, rest = url.partition(CLUSTER)
    if not is_cluster:
        return None
    place, _, options = rest.partition("?")
    login, at, nodes = place.rpartition("@")
    first, *others = nodes.split(",")
    seeds = [ClusterNode(*node.rsplit(":", 1)) for node in others]  # type: ignore[no-untyped-call]
    return redis.RedisCluster.from_url(
        f"{scheme}://{login}{at}{first}?{options}",  # which says how to log in, and its TLS
        startup_nodes=seeds,
        retry=Retry(NoBackoff(), 1),
        decode_responses=True,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
    )
