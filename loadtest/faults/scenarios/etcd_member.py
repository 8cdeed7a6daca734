"""One of three members of etcd dies, and it is the leader."""

from __future__ import annotations

from loadtest.faults.context import Act, Missed
from loadtest.faults.scenario import Scenario
from loadtest.faults.testbed.protocols import leader_of


class EtcdMember(Scenario):
    """The other two elect a leader and go on with all leases and all places in the queue."""

    name = "etcd-member"
    what = "kill -9 of the leader of three etcd members, in the middle of the rush"
    members = 3

    def play(self, act: Act) -> None:
        act.let_sell(20)
        leader = leader_of(act.arena.etcd)
        if leader is None:
            raise Missed("no member of etcd leads")
        leader.kill()
        act.say(f"{leader.name}, the leader, is killed")
        act.let_sell(20)
        leader.start()
        act.say(f"{leader.name} is back")
