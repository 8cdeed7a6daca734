"""The scenarios, in the order in which they are played."""

from __future__ import annotations

from labs.faults.scenario import Scenario
from labs.faults.scenarios.etcd import EtcdMember, EtcdOutage, NestedName, Partition, RestartEtcd, SlowEtcd
from labs.faults.scenarios.holder import DelayedWrite, KillHolder, PauseHolder
from labs.faults.scenarios.random_sequence import RandomOpening, RandomSequence
from labs.faults.scenarios.redis import Failover, LateReplica, LossyFailover, RestartRedis, WaitingFailover
from labs.faults.scenarios.retry_storm import RetryStorm
from labs.faults.scenarios.transfer import KillMover, PauseMover

SCENARIOS: tuple[type[Scenario], ...] = (
    KillHolder,
    PauseHolder,
    DelayedWrite,
    RestartEtcd,
    EtcdOutage,
    EtcdMember,
    Partition,
    SlowEtcd,
    RestartRedis,
    RetryStorm,
    NestedName,
    KillLeader,
    PauseLeader,
    CutLeader,
    LateOpening,
    OpenedTwice,
    KillMover,
    PauseMover,
    Failover,
    LateReplica,
    WaitingFailover,
    LossyFailover,
    RandomSequence,
    RandomOpening,
)
