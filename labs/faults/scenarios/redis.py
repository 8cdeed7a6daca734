"""Redis is killed and comes back, or loses its data."""

from __future__ import annotations

import redis

from app.contract.keys import Keys
from labs.faults.context import SOME, ScenarioContext
from labs.faults.scenario import Scenario
from labs.faults.testbed import SALE


class RestartRedis(Scenario):
    """Kill -9 of Redis in the middle of the rush, three times; acknowledged orders survive.

    Whatever a buyer was told is on disk (append-only, fsync always); what was under way is in doubt, and settled.
    """

    name = "restart-redis"
    sort_key = 90

    def play(self, context: ScenarioContext) -> None:
        for _ in range(3):
            context.act(context.testbed.redis.kill, "{item} is killed", item="Redis")
            context.act(context.testbed.redis.start, "{item} is back", item="Redis")
            context.wait_for_sales()


class LostData(Scenario):
    """Take all data from Redis in the middle of the rush, and restore it from a backup.

    A sale that was opened is never opened a second time by itself: every buyer is refused until the data is back.
    """

    name = "lost-data"
    sort_key = 95
    needs_lock = False

    def play(self, context: ScenarioContext) -> None:
        context.let_others_buy()
        sold, told = context.monitor.orders, len(context.buyers.answers)
        with redis.Redis.from_url(context.testbed.redis.url) as client:
            backup = {key: client.dump(key) for key in client.scan_iter()}
            context.act(client.flushall, "Redis has lost its data")
            context.buyers.admission.set()
            context.wait_for("the refusal of buyers", lambda: len(context.buyers.answers) >= told + SOME)
            context.require(not client.exists(Keys(SALE).stock, Keys(SALE).orders), "Redis had a sale without a reset")
            for key, value in backup.items():
                client.restore(key, 0, value, replace=True)
        context.announce("a backup is restored")
        context.wait_for("sales after the backup", lambda: context.monitor.orders >= sold + SOME)
