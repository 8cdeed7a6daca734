"""One atomic script: the honest reminder that a lock may not be needed."""

from __future__ import annotations

from app.guards.base import Guard, Promise
from app.sales.purchase import Purchase, Receipt, think_for


class RedisLuaGuard(Guard):
    """Without a lock, the think time passes before the script, and delays no other purchase."""

    name = "redis-lua"
    promise = Promise.EXACT
    description = "One atomic Lua script and no lock: if the whole decision fits into Redis, this is the best. Exact."
    sort_key = 100

    def buy(self, purchase: Purchase) -> Receipt:
        think_for(purchase.think_s)
        with purchase.critical_section() as section:
            return self.stock(purchase.item).sell(section)
