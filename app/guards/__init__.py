"""The guards: what stands around a purchase, one in each module."""

from __future__ import annotations

from app.guards.base import Guard, Promise, Tools
from app.guards.etcd import EtcdGuard
from app.guards.etcd_batch import EtcdBatchGuard
from app.guards.etcd_cohort import EtcdCohortGuard
from app.guards.etcd_sharded import EtcdShardedGuard
from app.guards.etcd_unfenced import EtcdUnfencedGuard
from app.guards.none import NoGuard
from app.guards.redis_lock import RedisLockGuard
from app.guards.redis_lua import RedisLuaGuard
from app.guards.redis_watch import RedisWatchGuard
from app.guards.thread import ThreadGuard

__all__ = ["DEFAULT", "GUARDS", "Guard", "Promise", "Tools"]

GUARDS: tuple[type[Guard], ...] = (  # in the order in which they are shown
    NoGuard,
    ThreadGuard,
    EtcdGuard,
    EtcdUnfencedGuard,
    EtcdCohortGuard,
    EtcdBatchGuard,
    EtcdShardedGuard,
    RedisLockGuard,
    RedisWatchGuard,
    RedisLuaGuard,
)
DEFAULT = EtcdGuard.name
