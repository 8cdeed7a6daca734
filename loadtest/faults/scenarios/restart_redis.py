"""Redis is killed and comes back."""

from __future__ import annotations

from loadtest.faults.context import Act
from loadtest.faults.scenario import Scenario


class RestartRedis(Scenario):
    """Whatever a buyer was told is on disk (append-only, fsync always); what was under way is in doubt, and settled."""

    name = "restart-redis"
    what = "kill -9 of Redis in the middle of the rush, three times; acknowledged orders survive"

    def play(self, act: Act) -> None:
        for _ in range(3):
            act.let_sell(20)
            act.arena.redis.kill()
            act.say("Redis is killed")
            act.arena.redis.start()
            act.say("Redis is back")
