"""Redis is killed and comes back."""

from __future__ import annotations

from labs.faults.context import ScenarioContext
from labs.faults.scenario import Scenario


class RestartRedis(Scenario):
    """Kill -9 of Redis in the middle of the rush, three times; acknowledged orders survive.

    Whatever a buyer was told is on disk (append-only, fsync always); what was under way is in doubt, and settled.
    """

    name = "restart-redis"
    order = 90

    def play(self, context: ScenarioContext) -> None:
        for _ in range(3):
            context.act(context.testbed.redis.kill, "{item} is killed", item="Redis")
            context.act(context.testbed.redis.start, "{item} is back", item="Redis")
            context.wait_for_sales()
