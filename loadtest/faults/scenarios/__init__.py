"""The scenarios, in the order in which they are played."""

from __future__ import annotations

from loadtest.faults.scenario import Scenario
from loadtest.faults.scenarios.etcd import EtcdMember, EtcdOutage, NestedName, Partition, RestartEtcd, SlowEtcd
from loadtest.faults.scenarios.holder import DelayedWrite, KillHolder, PauseHolder
from loadtest.faults.scenarios.opening import CutLeader, KillLeader, LateOpening, OpenedTwice, PauseLeader
from loadtest.faults.scenarios.random_sequence import RandomOpening, RandomSequence
from loadtest.faults.scenarios.redis import Failover, LateReplica, LossyFailover, RestartRedis, WaitingFailover
from loadtest.faults.scenarios.retry_storm import RetryStorm
from loadtest.faults.scenarios.transfer import KillMover, PauseMover

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
