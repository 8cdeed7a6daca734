"""An instance fails while it moves items between two shards: they have left one, and not reached the other."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial

from labs.faults.context import ScenarioContext
from labs.faults.scenario import Scenario
from labs.faults.shops import Shop
from loadtest.stack.proxy import REQUESTS

CREDITED = b":credited"  # a key of the script that lets items arrive


class Transfer(Scenario):
    """The items are in the journal, and the next holder of the mutex finishes what is pending there."""

    group = "transfer"
    sharded = True

    def play(self, context: ScenarioContext) -> None:
        shop = context.shops[0]
        shop.to_redis.hold_matching(CREDITED)
        held_back = partial(shop.to_redis.held_back, REQUESTS)
        context.wait_for("a transfer", lambda: CREDITED in held_back() and context.monitor.in_transit)
        self.fail(context, shop, f"{shop.name} has taken {context.monitor.in_transit} items out of a shard")
        context.wait_for_sales()
        context.act(context.testbed.heal, f"{shop.name} goes on")

    @abstractmethod
    def fail(self, context: ScenarioContext, shop: Shop, announcement: str) -> None:
        """Let the shop fail between debit and credit."""


class KillMover(Transfer):
    """Kill -9 of the instance that moves items between shards, after the debit and before the credit.

    The credit never arrives.
    """

    name = "transfer-kill"
    order = 170

    def fail(self, context: ScenarioContext, shop: Shop, announcement: str) -> None:
        shop.instance.kill()
        context.act(shop.to_redis.reset, f"{announcement}, and is killed")


class PauseMover(Transfer):
    """Freeze that instance there for longer than the TTL; its credit arrives when others have sold.

    Others have long finished the transfer, and Redis lets no item arrive twice.
    """

    name = "transfer-pause"
    order = 180

    def fail(self, context: ScenarioContext, shop: Shop, announcement: str) -> None:
        context.act(shop.instance.pause, f"{announcement}, and is frozen")
        context.wait_out_lease()
        context.let_others_buy()
        context.act(shop.to_redis.resume, "the network delivers its credit")
        context.buyers.admission.set()
