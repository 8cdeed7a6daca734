"""An instance loses etcd, and not Redis."""

from __future__ import annotations

from loadtest.faults.context import Act
from loadtest.faults.scenario import Scenario


class Partition(Scenario):
    """It could still write, and does not: without a lease it has no lock. The other instance goes on."""

    name = "partition"
    what = "cut an instance off from etcd, not from Redis: first silently, then with resets"
    lines = True

    def play(self, act: Act) -> None:
        lines = act.shops[0].etcd_lines
        act.let_sell(20)
        for line in lines:
            line.stall()
        act.say("shop-a hears nothing from etcd any more")
        act.outlive_lease()
        for line in lines:
            line.resume()
        act.say("shop-a and etcd hear each other again")
        act.let_sell(20)
        for line in lines:
            line.refuse()
        act.say("shop-a's connections to etcd are reset, and new ones refused")
        act.outlive_lease()
        for line in lines:
            line.start()
        act.say("shop-a can connect to etcd again")
        act.let_sell(20)
