"""A cart of several items, bought all or nothing: one lock for each of them, and every lock's token checked.

The locks are those of the guards that use etcd, so a cart and a single purchase exclude each other. They are taken in
one order whatever the order of the cart, so carts that overlap never wait for each other in a circle.

Error handling: as `app.sales.stock`. The script reads every item before it writes any, so no cart is sold in part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from flask import Flask, Response, request

from app import services
from app.contract.outcomes import Outcome
from app.guards.base import Tools, release
from app.sales.purchase import Purchase, Receipt, Section, Tokens
from app.sales.redis_client import Script
from app.sales.stock import fence_text, raise_refusal, replayed, require_current, sending
from app.web.params import Parameters
from app.web.routes import ITEMS_SET, Routes

NAME = "cart"  # the guard of a cart, as metrics and ledger know it
PATH = "/cart"
LARGEST = 20
CART = Script(Path(__file__).with_name("cart.lua"))


def init_app(app: Flask) -> None:
    """Sell carts under ``POST /cart``."""
    shop = services.of(app)
    carts, routes = Carts(shop.tools), Routes(shop)
    shop.add_seller(NAME, PATH)

    @app.post(PATH)
    def cart() -> Response:
        """Buy one piece of each of several items, or nothing."""
        asked = Parameters(request, "items", "hold_ms", "buyer")
        items = asked.several("items", least=1, most=shop.settings.items, count=LARGEST, why=ITEMS_SET)
        return routes.sell(carts.serve, routes.purchase(asked, NAME, cart_of(items)))


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
            with purchase.critical_section() as section:
                section.think()
                hold.ensure()
                tokens: Tokens = {item: hold.tokens[self._tools.sessions.name(item)] for item in items}
                section.receipt = receipt = self._commit(section, tokens)
                return receipt
        finally:
            release(hold, purchase)

    def _commit(self, section: Section, tokens: Tokens) -> Receipt:
        purchase = section.purchase
        wanted = f"{NAME} {purchase.item}"  # a retry has to want the same: a cart of one item is no single purchase
        keys = [self._sale.keys.answers]
        asked = [purchase.key or "", purchase.entry(tokens, item=wanted)]
        for item, token in tokens.items():
            k, entry = self._sale.keys_of[item], purchase.entry(token, item=item)
            keys += [k.stock, k.lucky, k.orders, k.fence, k.generation]
            asked += [item, self._sale.generation, fence_text(token), entry]
        require_current(self._sale, purchase)
        purchase.listener.write(section)
        with section.timing("commit"), sending():
            status, found, *place = CART.run(self._sale.client, keys, asked)
        if status == "generation":
            self._sale.reconcile(list(tokens)[place[0] - 1], found)
            return self._commit(section, tokens)
        raise_refusal(status, found, list(tokens.values())[place[0] - 1] if place else None)
        if status == "replay":
            return replayed(purchase, found, item=wanted)
        outcome = Outcome(status)
        order = purchase.order if outcome is Outcome.SOLD else None
        return Receipt(outcome, NAME, order=order, stock=json.loads(found), token=tokens)
