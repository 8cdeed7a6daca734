"""etcd is slow, and never equally slow."""

from __future__ import annotations

import time

from loadtest.faults.context import ScenarioContext
from loadtest.faults.scenario import Scenario
from loadtest.stack.proxy import Lines


class SlowEtcd(Scenario):
    """Everything takes longer, and nothing else changes: leases are kept alive, and nothing is oversold."""

    name = "slow-etcd"
    what = "delay each message to and from etcd so that a round trip takes 50 to 500 ms"
    lines = True

    def play(self, context: ScenarioContext) -> None:
        lines = Lines(line for shop in context.shops for line in shop.to_etcd)
        context.wait_for_sales(20)
        lines.slow_down(0.025, 0.225)
        context.announce("etcd is slow")
        time.sleep(3.0)
        lines.slow_down(0, 0)
        context.announce("etcd is fast again")
        context.wait_for_sales(10)
