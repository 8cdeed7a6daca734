"""A cart of several items, bought all or nothing: one lock for each of them, and every lock's token checked.

The locks are those of the guards that use etcd, so a cart and a single purchase exclude each other. They are taken in
one order whatever the order of the cart, so carts that overlap never wait for each other in a circle.

Error handling: as `app.sales.inventory`. The script reads every item before it writes any, so no cart is sold in part.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from app.guards.base import Tools, release
from app.sales.purchase import Outcome, Purchase, Receipt
from app.sales.scripts import decided, fenced_off, replayed, run, sending
from app.sales.tokens import Tokens, fence_text


def cart_of(items: Iterable[int]) -> str:
    """The value of `Purchase.item` for a cart of `items`, in any order."""
    return ",".join(map(str, sorted(items)))


class Carts:
    """Sells carts of one sale; the lock timeout is for all locks of a cart together."""

    def __init__(self, tools: Tools) -> None:
        self._sale, self._tools = tools.sale, tools

    def serve(self, purchase: Purchase) -> Receipt:
        """Sell one piece of each item, or nothing; raises one of `app.sales.refusals.EXPECTED`, or `KeyReused`."""
        items = purchase.item.split(",")
        self._tools.stocks[items[0]].ensure_open(purchase)
        hold = self._tools.sessions.multi(items).acquire(timeout=self._tools.lock_timeout)
        try:
            with purchase.critical_section():
                time.sleep(purchase.hold_s)
                hold.ensure()
                return self._commit(purchase, {item: hold.tokens[self._tools.sessions.name(item)] for item in items})
        finally:
            release(hold, purchase)

    def _commit(self, purchase: Purchase, tokens: Tokens) -> Receipt:
        keys, asked = [self._sale.keys.answers], [purchase.key or "", purchase.entry(token=tokens)]
        for item, token in tokens.items():
            k, entry = self._sale.keys_of[item], purchase.entry(item=item, token=token)
            keys += [k.stock, k.lucky, k.orders, k.fence, k.generation]
            asked += [item, self._sale.generation, fence_text(token), entry]
        with purchase.timing("commit"), sending():
            status, found, *place = run(self._sale.client, "cart", keys, asked)
        if status == "generation":
            self._sale.reconcile(list(tokens)[place[0] - 1], found)
            return self._commit(purchase, tokens)
        if status == "fenced":
            raise fenced_off(list(tokens.values())[place[0] - 1], found)
        if status == "replay":
            return replayed(purchase, found)
        return decided(purchase, Outcome(status), json.loads(found), token=tokens)
