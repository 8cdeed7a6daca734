"""Purchases that stop at every point of their critical section until they are told to go on: "you are the scheduler".

``POST /steps`` starts one, ``POST /steps/ID`` lets it go on to its next stop, ``GET /steps`` shows all, and
``DELETE /steps`` ends them. It stops at each point or, by its commands, before everything that it sends to Redis and
etcd: the points are then places that it passes. They pass through the real guard, Redis and etcd, each in its own
thread: a purchase that stops is a slow holder, whose lease is kept.

A purchase has `LIMIT_S` seconds in all. When they are over, or it is ended, it writes nothing and leaves its lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Response, has_request_context, request
from werkzeug.exceptions import Conflict, NotFound

from app import services
from app.contract.keys import DEFAULT_ITEM
from app.guards.base import Guard
from app.web.access import require_admin
from app.web.params import Parameters
from app.web.responses import json_response
from labs.steps.guard_files import GuardFile
from labs.steps.mistakes import mistakes
from labs.steps.stepped import COMMANDS, POINTS, SteppedPurchase
from labs.steps.wire import wire
from lock import LockError

PATH = "/steps"
LIMIT_S = 180.0
MOST = 8  # under way in one process; each has a thread
END_S = 5.0
HAND_TTL_S = 60  # of a mistake's lock, which nothing renews while a person steps its holder
OWN_THREADS = ("MainThread", "lock-", "redis-connect", "close-lost-session", "opener")  # of the shop


def is_own(thread: threading.Thread) -> bool:
    """Whether it works for the shop, and for no purchase; so do those of gRPC."""
    module = getattr(getattr(thread, "_target", None), "__module__", None) or ""
    return thread.name.startswith(OWN_THREADS) or module.startswith("grpc")


def owner_among(purchases: Sequence[SteppedPurchase]) -> SteppedPurchase | None:
    """The purchase whose thread this is. All that is not the shop's own belongs to the only one here."""
    thread = threading.current_thread()
    if own := next((each for each in purchases if each.thread is thread), None):
        return own
    is_none = is_own(thread) or thread.name.startswith("steps-")
    return purchases[0] if len(purchases) == 1 and not is_none else None


def know_the_servers(settings: Any) -> None:
    """Have the wire know the ports of Redis and etcd."""
    wire.redis = {urlsplit(settings.redis_url).port or 6379}
    wire.etcd = {int(each.rpartition(":")[2]) for each in settings.etcd_endpoints.split(",")}


def know_the_sale(shop: services.Services) -> None:
    """Have each purchase begin alike: this instance knows of the reset, and asks before it waits for a lock."""
    shop.sale.check()
    for stock in shop.stocks.values():
        stock.sold_out_at = time.monotonic()


class Steps:
    """The stepped purchases of one process; background work of the shop, which ends them when it shuts down."""

    def __init__(self, shop: services.Services, *, limit_s: float = LIMIT_S) -> None:
        self._shop = shop
        self._limit_s = limit_s
        self._purchases: dict[str, SteppedPurchase] = {}
        self._adding = threading.Lock()
        self._parts = copy(shop)
        self._parts.settings = shop.settings.model_copy(update={"lease_ttl": HAND_TTL_S})
        self.kinds = {**{name: type(guard) for name, guard in shop.guards.items()}, **mistakes()}
        self._guards: dict[str, Guard] = {}  # made since the last start, so that they remember nothing of before

    def owner(self) -> SteppedPurchase | None:
        """The purchase that is stepped by its commands, if this thread is its, or may be."""
        purchases = [each for each in list(self._purchases.values()) if each.granularity == COMMANDS]
        return None if has_request_context() else owner_among(purchases)

    def _guard(self, name: str) -> Guard:
        if name not in self._guards:
            parts = self._parts if name in mistakes() else self._shop
            self._guards[name] = GuardFile.of(self.kinds[name]).load()(parts)
        return self._guards[name]

    def add(self, guard: str, buyer: str, granularity: str = POINTS, *, item: str = DEFAULT_ITEM) -> SteppedPurchase:
        """Start one; raises Conflict if there are too many. The oldest of those that are over are forgotten."""
        if granularity == COMMANDS:  # no command more than where the schedules are tried
            know_the_servers(self._shop.settings)
            wire.owner = self.owner
            wire.wrap()
            know_the_sale(self._shop)
            with suppress(LockError):  # without etcd, the purchase finds out by itself
                self._shop.sessions.session()
        made = SteppedPurchase(
            self._guard(guard),
            buyer,
            instance=self._shop.settings.instance,
            inner=self._shop.listener,
            limit_s=self._limit_s,
            granularity=granularity,
            item=item,
        )
        with self._adding:
            over = [id for id, each in self._purchases.items() if each.is_over]
            if len(self._purchases) - len(over) >= MOST:
                raise Conflict(f"{MOST} purchases are under way here already: end them with DELETE {PATH}.")
            for id in over[: max(len(self._purchases) - MOST + 1, 0)]:
                del self._purchases[id]
            self._purchases[made.id] = made
        made.start()
        return made

    def of(self, id: str) -> SteppedPurchase:
        """The purchase with this id; raises NotFound."""
        if id not in self._purchases:
            raise NotFound(f"There is no stepped purchase {id!a:.40} here: GET {PATH} shows all.")
        return self._purchases[id]

    def show(self) -> list[dict[str, Any]]:
        return [each.show() for each in list(self._purchases.values())]

    def end(self) -> None:
        """End all, and forget those that are over within `END_S` seconds."""
        purchases, until = list(self._purchases.values()), time.monotonic() + END_S
        for each in purchases:
            each.end()
        for each in purchases:
            each.thread.join(max(until - time.monotonic(), 0.0))
            if each.is_over:
                self._purchases.pop(each.id, None)
        self._guards.clear()

    def start(self) -> None: ...

    close = end


def init_app(app: Flask) -> None:
    """Register the routes; who may step is who may reset."""
    shop = services.of(app)
    steps = Steps(shop)
    shop.background.append(steps)

    def shown() -> Response:
        return json_response({"purchases": steps.show()})

    @app.get(PATH)
    def show_steps() -> Response:
        return shown()

    @app.post(PATH)
    def add_stepped() -> Response:
        require_admin(shop.settings, "steps")
        asked = Parameters(request, "guard", "buyer", "grain", "item")
        guard, grain = asked.choice("guard", "none", steps.kinds), asked.choice("grain", POINTS, (POINTS, COMMANDS))
        item = str(asked.whole("item", int(DEFAULT_ITEM), least=1, most=shop.settings.items))
        made = steps.add(guard, asked.text("buyer", "anonymous"), grain, item=item)
        return json_response(made.show())

    @app.post(f"{PATH}/<id>")
    def step(id: str) -> Response:
        require_admin(shop.settings, "steps")
        stepped = steps.of(id)
        stepped.step()
        return json_response(stepped.show())

    @app.delete(PATH)
    def end_steps() -> Response:
        require_admin(shop.settings, "steps")
        steps.end()
        return shown()
