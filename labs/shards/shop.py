"""Where the stock of an item lies, over HTTP."""

from __future__ import annotations

from typing import cast

from flask import Flask, Response, request

from app import services
from app.contract.keys import DEFAULT_ITEM
from app.web.params import Parameters
from app.web.responses import json_response
from labs.shards.guards.etcd_sharded import EtcdShardedGuard
from labs.shards.state import state_of


def init_app(app: Flask) -> None:
    """Register ``GET /stock/shards``."""
    shop = services.of(app)
    guard = cast(EtcdShardedGuard, shop.guards[EtcdShardedGuard.name])

    def shards() -> Response:
        item = str(Parameters(request, "item").whole("item", int(DEFAULT_ITEM), least=1, most=shop.settings.items))
        shop.sale.snapshot(item)  # refuses what is lost
        state = state_of(guard.stocks[item].places)
        each = [shard._asdict() for shard in state.shards]
        return json_response(
            {"item": item, "treasury": state.treasury._asdict(), "shards": each, "in_transit": state.in_transit}
        )

    app.add_url_rule("/stock/shards", view_func=shards, methods=["GET"])
