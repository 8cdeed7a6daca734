"""Redis is killed and comes back, or a replica takes over."""

from __future__ import annotations

import time
from collections.abc import Mapping

from app.contract.keys import key_prefix, slot_names
from labs.faults.context import ScenarioContext
from labs.faults.scenario import Expected, Scenario
from labs.faults.shops import SALE, Setup
from labs.faults.threads import MistimedFault
from loadtest.ports import LOOPBACK
from loadtest.shop_client.ledgers import connect
from loadtest.stack.redis_cluster import RedisCluster
from loadtest.stack.servers import Redis

SHARD = key_prefix(slot_names(SALE, 1)[1])
AWAY_S = 4.0
PATIENT = {"repl-timeout": "60"}
# A master soon gives up a replica that does not answer ...
HASTY = {"repl-ping-replica-period": "1", "repl-timeout": "2"}
# ... and takes no writes without one: whatever was acknowledged is on its way to the replica, at least.
SAFE = {**HASTY, "min-replicas-to-write": "1", "min-replicas-max-lag": "1"}


def _set_timeout(node: Redis, settings: Mapping[str, str]) -> None:
    """Let a node wait so long for the other side of its replication; raises redis.RedisError."""
    with connect(f"redis://{LOOPBACK}:{node.port}", timeout=1.0) as client:
        client.config_set("repl-timeout", settings["repl-timeout"])


class RestartRedis(Scenario):
    """Kill -9 of Redis in the middle of the rush, three times; acknowledged orders survive.

    Whatever a buyer was told is on disk (append-only, fsync always); what was under way is in doubt, and settled.
    """

    name = "restart-redis"
    order = 90

    def play(self, context: ScenarioContext) -> None:
        for _ in range(3):
            context.act(context.testbed.redis.kill, "Redis is killed")
            context.act(context.testbed.redis.start, "Redis is back")
            context.wait_for_sales()


class Failover(Scenario):
    """Kill -9 of a Redis master in the middle of the rush; its replica takes over.

    Buyers of its shards are told that Redis is unavailable, until the replica is the master.
    """

    name = "failover-kill"
    order = 190
    group = "failover"
    setup = Setup(redis_shards=3, redis_settings=SAFE)
    sharded = True
    replica_away_s = 0.0

    def play(self, context: ScenarioContext) -> None:
        cluster = context.testbed.redis
        assert isinstance(cluster, RedisCluster)
        master, replica = cluster.nodes_of(SHARD)
        if self.replica_away_s:
            _set_timeout(replica, PATIENT)  # or it drops, when it is thawed, what its master sent before the freeze
            context.act(replica.pause, f"{replica.name} is frozen, and {master.name} goes on without it")
            sold = context.monitor.orders
            time.sleep(self.replica_away_s)
            if context.monitor.orders == sold:
                raise MistimedFault("nothing was sold while the replica was frozen")
        context.act(master.kill, f"{master.name} is killed")
        replica.resume()
        context.wait_for(f"the election of {replica.name}", lambda: cluster.nodes_of(SHARD)[0] is replica)
        context.announce(f"{replica.name} has taken over")
        _set_timeout(replica, self.setup.redis_settings or HASTY)
        # The new master takes writes when it has a replica again; until then the others may run out of items.
        context.act(context.testbed.heal, f"{master.name} is back, as a replica")
        context.wait_for_sales()


class LateReplica(Failover):
    """The same with a replica that was frozen before: what it does not have was not sold.

    While it was away, the master took no writes: their buyers were told so, and nothing is missing now.
    """

    name = "failover-late"
    order = 200
    replica_away_s = AWAY_S


class WaitingFailover(LateReplica):
    """The same, with a shop that waits for the replica (WAIT) instead: what it does not have is in doubt.

    What the replica does not have is in doubt; items leave a shard only with an entry that the replica has, too.
    """

    name = "failover-wait"
    order = 210
    setup = Setup(redis_shards=3, redis_settings=HASTY, settings={"FLASHSALE_REDIS_REPLICAS": "1"})


class LossyFailover(LateReplica):
    """The same without either, which has to break: acknowledged orders are lost.

    As Redis is set up by default: what was sold meanwhile is for sale once more.
    """

    name = "failover-lossy"
    order = 220
    setup = Setup(redis_shards=3, redis_settings=HASTY)
    fenced = unfenced = Expected.BREAKS
