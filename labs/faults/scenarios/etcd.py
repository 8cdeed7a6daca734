"""etcd is slow, restarts, loses a member, is unavailable or out of reach; or a stranger's lock is in the way."""

from __future__ import annotations

import time

from app.contract.outcomes import Outcome
from labs.faults.context import ScenarioContext
from labs.faults.scenario import Scenario
from labs.faults.testbed import CHILD, TTL_S, Setup, leader_of, stranger
from labs.faults.threads import MistimedFault, ScenarioError
from loadtest.results.record import Record
from loadtest.stack.proxy import Lines
from lock import connect


class RestartEtcd(Scenario):
    """Stop etcd and start it again within the TTL.

    Leases and places in the queue are on etcd's disk: the sale goes on where it was, and no lock is lost.
    """

    name = "restart-etcd"
    sort_key = 40
    setup = Setup(ttl_s=6)  # a start takes two seconds, and more on a busy machine

    def play(self, context: ScenarioContext) -> None:
        down_ms = context.start.elapsed_ms()
        context.act(context.testbed.etcd.stop, "etcd is stopped")
        context.act(context.testbed.etcd.start, "etcd is back, within a TTL of {s} s", s=self.setup.ttl_s)
        self._away_s = (context.start.elapsed_ms() - down_ms) / 1000
        context.wait_for_sales()

    def review(self, context: ScenarioContext, record: Record) -> None:
        if self._away_s >= self.setup.ttl_s:
            raise MistimedFault("etcd was away for {s} s, beyond the TTL", s=round(self._away_s, 1))
        lost = sum(answer.outcome is Outcome.LOCK_LOST for answer in record.answers)
        context.require_in_time(lost == 0, "{n} buyers were told that the lock was lost", n=lost)


class EtcdOutage(Scenario):
    """Take etcd away for longer than the TTL, and bring it back.

    Without a lock nothing is sold, and every buyer is told so. Then the sale goes on by itself.
    """

    name = "etcd-outage"
    sort_key = 50

    def play(self, context: ScenarioContext) -> None:
        context.act(context.testbed.etcd.stop, "etcd is stopped")
        down_ms = context.start.elapsed_ms()
        context.wait_out_lease()
        self._away = (down_ms + TTL_S * 1000, context.start.elapsed_ms())
        context.act(context.testbed.etcd.start, "etcd is back")
        context.wait_for_sales()

    def review(self, context: ScenarioContext, record: Record) -> None:
        begin, end = self._away
        entered = sum(begin < section.entered_ms < end for section in record.sections)
        if context.locks_in_etcd:
            # One of each instance may have got its lock in time and have begun late.
            flaw = "{n} critical sections began without etcd"
            context.require(entered <= len(context.shops), flaw, n=entered)
            context.require_in_time(entered == 0, flaw, n=entered)


class EtcdUnneeded(Scenario):
    """Take etcd away from guards that have no lock in it.

    Which sale is under way stands in Redis, and no click asks etcd. The sale goes on, and no buyer is refused.
    """

    name = "etcd-unneeded"
    sort_key = 55
    needs_lock = False
    only = ("redis-lua", "redis-watch", "redis-lock")

    def play(self, context: ScenarioContext) -> None:
        context.act(context.testbed.etcd.stop, "etcd is stopped")
        context.wait_out_lease()
        context.wait_for_sales()
        context.act(context.testbed.etcd.start, "etcd is back")

    def review(self, context: ScenarioContext, record: Record) -> None:
        refused = sum(answer.outcome is Outcome.UNAVAILABLE for answer in record.answers)
        context.require(refused == 0, "{n} buyers were refused without etcd", n=refused)


class EtcdMember(Scenario):
    """Kill -9 of the leader of three etcd members, in the middle of the rush.

    The other two elect a leader and go on with all leases and all places in the queue.
    """

    name = "etcd-member"
    sort_key = 60
    setup = Setup(members=3)

    def play(self, context: ScenarioContext) -> None:
        leader = leader_of(context.testbed.etcd)
        if leader is None:
            raise ScenarioError("no member of etcd leads")
        context.act(leader.kill, "{node}, the leader, is killed", node=leader.name)
        context.wait_for_sales()
        context.act(leader.start, "{item} is back", item=leader.name)


class Partition(Scenario):
    """Cut an instance off from etcd, not from Redis: first silently, then with resets.

    The instance could still write, and does not: without a lease it has no lock. The other instance goes on.
    """

    name = "partition"
    sort_key = 70

    def play(self, context: ScenarioContext) -> None:
        shop, lines = context.shops[0].name, context.shops[0].to_etcd
        context.act(lines.stall, "{shop} hears nothing from etcd any more", shop=shop)
        context.wait_out_lease()
        context.act(lines.resume, "{shop} and etcd hear each other again", shop=shop)
        context.wait_for_sales()
        context.act(lines.refuse, "{shop}'s connections to etcd are reset, and new ones refused", shop=shop)
        context.wait_out_lease()
        context.act(lines.start, "{shop} can connect to etcd again", shop=shop)
        context.wait_for_sales()


class SlowEtcd(Scenario):
    """Delay each message to and from etcd so that a round trip takes 50 to 500 ms.

    Everything takes longer, and nothing else changes: leases are kept alive, and nothing is oversold.
    """

    name = "slow-etcd"
    sort_key = 80

    def play(self, context: ScenarioContext) -> None:
        lines = Lines(line for shop in context.shops for line in shop.to_etcd)
        lines.slow_down(0.025, 0.225)
        context.announce("etcd is slow")
        time.sleep(3.0)
        lines.slow_down(0, 0)
        context.announce("etcd is fast again")
        context.wait_for_sales()


class NestedName(Scenario):
    """A stranger holds NAME/child; the timeout names the holder to the operator.

    A lock on a name waits for everything below it: the queue of NAME is the prefix NAME/.

    That cannot be helped without leaving the queue that all etcd clients share; but an operator should not have to
    read etcd's source to find the holder. The refusal names it.
    """

    name = "nested-name"
    sort_key = 110

    def play(self, context: ScenarioContext) -> None:
        endpoints = context.testbed.etcd.endpoints
        with connect(endpoints) as client, stranger(endpoints, ttl=10, timeout=5) as held:
            context.announce("a stranger holds {name}", name=CHILD)
            # A purchase that shares the wait of another one, as in a group, may stand before the stranger until then.
            queue = f"{CHILD.rpartition('/')[0]}/"
            context.wait_for(
                "the stranger's place at the head of the queue",
                lambda: client.get_prefix(queue).keys[0].create_revision == held.token,
            )
            answer = context.buyers.buy("operator", shop=0)
        context.announce("the stranger is gone")
        if context.locks_in_etcd:
            detail = str(context.buyers.last_told["operator"].get("detail"))
            is_refused = answer.outcome is Outcome.LOCK_TIMEOUT
            context.require_in_time(is_refused, "the operator was told {outcome}", outcome=answer.outcome.value)
            is_named = CHILD in detail and "stranger" in detail
            context.require(is_named or not is_refused, "the refusal does not name the stranger: {told}", told=detail)
        context.wait_for_sales()
