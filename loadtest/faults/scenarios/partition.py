"""An instance loses etcd, and not Redis."""

from __future__ import annotations

from loadtest.faults.context import ScenarioContext
from loadtest.faults.scenario import Scenario


class Partition(Scenario):
    """It could still write, and does not: without a lease it has no lock. The other instance goes on."""

    name = "partition"
    what = "cut an instance off from etcd, not from Redis: first silently, then with resets"
    lines = True

    def play(self, context: ScenarioContext) -> None:
        lines = context.shops[0].to_etcd
        context.wait_for_sales(20)
        lines.stall()
        context.announce("shop-a hears nothing from etcd any more")
        context.wait_out_lease()
        lines.resume()
        context.announce("shop-a and etcd hear each other again")
        context.wait_for_sales(20)
        lines.refuse()
        context.announce("shop-a's connections to etcd are reset, and new ones refused")
        context.wait_out_lease()
        lines.start()
        context.announce("shop-a can connect to etcd again")
        context.wait_for_sales(20)
