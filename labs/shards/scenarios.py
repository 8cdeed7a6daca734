"""An instance fails while it moves items between two shards, or a replica of Redis takes over."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from app.contract.keys import key_prefix
from labs.faults.context import ScenarioContext
from labs.faults.scenario import Expected, Scenario
from labs.faults.scenarios.random_sequence import RandomSequence
from labs.faults.shops import SALE, Setup, Shop
from labs.faults.threads import MistimedFault
from labs.shards.local_cluster import RedisCluster
from loadtest.language import Message
from loadtest.ports import LOOPBACK
from loadtest.shop_client.ledgers import connect
from loadtest.stack.proxy import REQUESTS
from loadtest.stack.servers import Redis

SHARDED = "etcd-sharded"
CREDITED = b":credited"  # a key of the script that lets items arrive
SHARD = key_prefix(f"{SALE}/0")
AWAY_S = 4.0
PATIENT = {"repl-timeout": "60"}
# A master soon gives up a replica that does not answer ...
HASTY = {"repl-ping-replica-period": "1", "repl-timeout": "2"}
# ... and takes no writes without one: whatever was acknowledged is on its way to the replica, at least.
SAFE = {**HASTY, "min-replicas-to-write": "1", "min-replicas-max-lag": "1"}


def _cluster(settings: Mapping[str, str] | None) -> Callable[[Path], RedisCluster]:
    """Three masters, and a replica of each if there are settings."""
    return partial(RedisCluster, masters=3, settings=settings, appendonly=True)


class Transfer(Scenario):
    """The items are in the journal, and the next holder of the mutex finishes what is pending there."""

    group = "transfer"
    only = (SHARDED,)

    def play(self, context: ScenarioContext) -> None:
        shop = context.shops[0]
        shop.to_redis.hold_matching(CREDITED)
        held_back = partial(shop.to_redis.held_back, REQUESTS)
        context.wait_for("a transfer", lambda: CREDITED in held_back())
        self.fail(context, shop)
        context.wait_for_sales()
        context.act(context.testbed.heal, "{shop} goes on", shop=shop.name)

    @abstractmethod
    def fail(self, context: ScenarioContext, shop: Shop) -> None:
        """Let the shop fail between debit and credit."""


class KillMover(Transfer):
    """Kill -9 of the instance that moves items between shards, after the debit and before the credit.

    The credit never arrives.
    """

    name = "transfer-kill"
    order = 170

    def fail(self, context: ScenarioContext, shop: Shop) -> None:
        shop.instance.kill()
        context.act(shop.to_redis.reset, "{shop} has taken items out of a shard, and is killed", shop=shop.name)


class PauseMover(Transfer):
    """Freeze that instance there for longer than the TTL; its credit arrives when others have sold.

    Others have long finished the transfer, and Redis lets no item arrive twice.
    """

    name = "transfer-pause"
    order = 180

    def fail(self, context: ScenarioContext, shop: Shop) -> None:
        context.act(shop.instance.pause, "{shop} has taken items out of a shard, and is frozen", shop=shop.name)
        context.wait_out_lease()
        context.let_others_buy()
        context.act(shop.to_redis.resume, "the network delivers its credit")
        context.buyers.admission.set()


def _set_timeout(node: Redis, settings: Mapping[str, str]) -> None:
    """Let a node wait so long for the other side of its replication; raises redis.RedisError."""
    with connect(f"redis://{LOOPBACK}:{node.port}", timeout=1.0) as client:
        client.config_set("repl-timeout", settings["repl-timeout"])


class Failover(Scenario):
    """Kill -9 of a Redis master in the middle of the rush; its replica takes over.

    Buyers of its shards are told that Redis is unavailable, until the replica is the master.
    """

    name = "failover-kill"
    order = 190
    group = "failover"
    settings: ClassVar[Mapping[str, str]] = SAFE
    setup = Setup(redis=_cluster(SAFE))
    only = (SHARDED,)
    replica_away_s = 0.0

    def play(self, context: ScenarioContext) -> None:
        cluster = context.testbed.redis
        assert isinstance(cluster, RedisCluster)
        master, replica = cluster.nodes_of(SHARD)
        if self.replica_away_s:
            _set_timeout(replica, PATIENT)  # or it drops, when it is thawed, what its master sent before the freeze
            frozen = "{node} is frozen, and {master} goes on without it"
            context.act(replica.pause, frozen, node=replica.name, master=master.name)
            sold = context.monitor.orders
            time.sleep(self.replica_away_s)
            if context.monitor.orders == sold:
                raise MistimedFault("nothing was sold while the replica was frozen")
        context.act(master.kill, "{item} is killed", item=master.name)
        replica.resume()
        election = Message.of("the election of {node}", node=replica.name)
        context.wait_for(election, lambda: cluster.nodes_of(SHARD)[0] is replica)
        context.announce("{node} has taken over", node=replica.name)
        _set_timeout(replica, self.settings)
        # The new master takes writes when it has a replica again; until then the others may run out of items.
        context.act(context.testbed.heal, "{node} is back, as a replica", node=master.name)
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
    settings = HASTY
    setup = Setup(redis=_cluster(HASTY), settings={"FLASHSALE_REDIS_REPLICAS": "1"})


class LossyFailover(LateReplica):
    """The same without either, which has to break: acknowledged orders are lost.

    As Redis is set up by default: what was sold meanwhile is for sale once more.
    """

    name = "failover-lossy"
    order = 220
    settings = HASTY
    setup = Setup(redis=_cluster(HASTY))
    fenced = unfenced = Expected.BREAKS


class RandomShards(RandomSequence):
    """The same on three masters of a Redis Cluster.

    Each may die while items move to it or from it.
    """

    name = "random-shards"
    order = 250
    only = (SHARDED,)
    setup = Setup(members=3, redis=_cluster(None))
