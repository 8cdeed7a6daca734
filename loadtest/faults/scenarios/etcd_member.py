"""One of three members of etcd dies, and it is the leader."""

from __future__ import annotations

from loadtest.faults.context import ScenarioContext
from loadtest.faults.scenario import Scenario
from loadtest.faults.testbed.protocols import leader_of
from loadtest.faults.threads import ScenarioError


class EtcdMember(Scenario):
    """The other two elect a leader and go on with all leases and all places in the queue."""

    name = "etcd-member"
    what = "kill -9 of the leader of three etcd members, in the middle of the rush"
    members = 3

    def play(self, context: ScenarioContext) -> None:
        context.wait_for_sales(20)
        leader = leader_of(context.testbed.etcd)
        if leader is None:
            raise ScenarioError("no member of etcd leads")
        leader.kill()
        context.announce(f"{leader.name}, the leader, is killed")
        context.wait_for_sales(20)
        leader.start()
        context.announce(f"{leader.name} is back")
