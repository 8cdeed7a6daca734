"""Redis is killed and comes back."""

from __future__ import annotations

from loadtest.faults.context import ScenarioContext
from loadtest.faults.scenario import Scenario


class RestartRedis(Scenario):
    """Whatever a buyer was told is on disk (append-only, fsync always); what was under way is in doubt, and settled."""

    name = "restart-redis"
    what = "kill -9 of Redis in the middle of the rush, three times; acknowledged orders survive"

    def play(self, context: ScenarioContext) -> None:
        for _ in range(3):
            context.wait_for_sales(20)
            context.testbed.redis.kill()
            context.announce("Redis is killed")
            context.testbed.redis.start()
            context.announce("Redis is back")
