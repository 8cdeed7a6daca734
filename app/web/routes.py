"""The sale over HTTP: purchases, the stock, the guards, and the queue of the lock.

After a 503 nothing was written, so a retry is a new try, unless the document says ``"in_doubt": true``: then the order
may exist, and only a retry with the *same* Idempotency-Key is safe. It gets the order that exists, with the header
``Idempotency-Replayed: true``, or else buys. The same goes for a connection that broke without an answer. Only ``sold``
and ``sold_out`` are kept for a key, until the sale is reset.
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, current_app, request
from werkzeug.exceptions import UnprocessableEntity

from app import services
from app.config.settings import MOST_ITEMS
from app.contract.keys import DEFAULT_ITEM
from app.contract.outcomes import Outcome
from app.guards import DEFAULT
from app.sales.purchase import Purchase, Receipt, Section
from app.sales.refusals import EXPECTED, KeyReused, refuse
from app.web.access import require_admin
from app.web.params import Parameters, checked_text
from app.web.responses import json_response, problem_response

LONGEST_HOLD_MS = 60_000
ITEMS_SET = ", as set by FLASHSALE_ITEMS"
SOLD_OUT = "Nothing is left, and trying again will not help until the sale is reset."


sale = Blueprint("sale", __name__)


@sale.post("/stock/reduce")
def reduce() -> Response:
    """Buy one item."""
    shop, parameters = current_app.extensions["services"], Parameters(request, "guard", "item", "hold_ms", "buyer")
    guard, key = parameters.choice("guard", DEFAULT, shop.guards), request.headers.get("Idempotency-Key")
    purchase = Purchase(
        buyer=parameters.text("buyer", "anonymous"),
        guard=guard,
        item=str(parameters.whole("item", 1, least=1, most=shop.settings.items, why=ITEMS_SET)),
        think_s=parameters.whole("hold_ms", 0, most=LONGEST_HOLD_MS) / 1000,
        key=None if key is None else checked_text("Idempotency-Key", key),
        instance=shop.settings.instance,
        listener=shop.listener,
    )
    try:
        with shop.metrics.in_progress.track_inprogress():
            receipt = shop.guards[guard].serve(purchase)
    except EXPECTED as error:
        receipt = refuse(purchase, error)
    except KeyReused as error:
        raise UnprocessableEntity(f"{error}: use a new key for a new purchase.") from error
    shop.metrics.count(purchase, receipt)
    return answer(purchase, receipt)


def answer(purchase: Purchase, receipt: Receipt) -> Response:
    """The response to a purchase."""
    section = purchase.section or Section(purchase)
    waited_ms = round((section.entered - purchase.began) * 1000, 3)
    members: dict[str, Any] = {
        "outcome": receipt.outcome.value,
        "item": purchase.item,
        "order": receipt.order,
        "stock": receipt.stock,
        "guard": receipt.guard,
        "token": receipt.token,
        "waited_ms": waited_ms,
        "held_ms": round((section.left - section.entered) * 1000, 3) if section.left else 0.0,
    }
    if receipt.outcome is Outcome.SOLD:
        response = json_response(members)
    else:
        if receipt.outcome is Outcome.UNAVAILABLE:
            members["in_doubt"] = receipt.in_doubt
        status = 409 if receipt.outcome is Outcome.SOLD_OUT else 503
        response = problem_response(status, receipt.detail or SOLD_OUT, kind=receipt.outcome.value, **members)
    if receipt.replayed:
        response.headers["Idempotency-Replayed"] = "true"
    read_ms, commit_ms = round(section.read_s * 1000, 3), round(section.commit_s * 1000, 3)
    response.headers["Server-Timing"] = f"wait;dur={waited_ms}, read;dur={read_ms}, commit;dur={commit_ms}"
    return response


@sale.get("/stock")
def stock() -> Response:
    """Counters and ledger of an item, and the verdict."""
    return _stock_of(_item())


@sale.post("/stock/reset")
def reset() -> Response:
    """Reset the sale of all items; answers as ``GET /stock`` for the first one."""
    shop = services.of(current_app)
    require_admin(shop.settings, "resets")
    shop.sale.reset(Parameters(request, "stock").whole("stock", shop.settings.stock, most=MOST_ITEMS))
    return _stock_of(DEFAULT_ITEM)


def _item() -> str:
    most = services.of(current_app).settings.items
    return str(Parameters(request, "item").whole("item", int(DEFAULT_ITEM), least=1, most=most, why=ITEMS_SET))


def _stock_of(item: str) -> Response:
    now = services.of(current_app).sale.snapshot(item)
    verdict = now.judge()
    counted = {name: getattr(now, name) for name in ("initial", "stock", "lucky", "orders")}
    judged = {"verdict": verdict.sentence, "kind": verdict.kind.value, "exact": verdict.exact}
    return json_response({"item": item, **counted, "lost_updates": verdict.lost_updates, **judged})


@sale.get("/guards")
def guards() -> Response:
    """The guards that a purchase may name, in the order in which they are shown."""
    listed = [
        {
            "name": guard.name,
            "promise": guard.promise.value,
            "description": guard.description,
            "order": guard.sort_key,
            "loses_lock": guard.loses_lock,
        }
        for guard in services.of(current_app).guards.values()
    ]
    return json_response({"guards": listed, "default": DEFAULT})


@sale.get("/lock")
def lock() -> Response:
    """The holder of an item's etcd mutex, and the waiters in order."""
    mutex = services.of(current_app).sessions.mutex(_item())
    queue = [
        {
            "instance": contender.session,
            "owner": contender.owner,
            "key": contender.key,
            "token": contender.token,
            "age_s": None if contender.queued_s is None else round(contender.queued_s, 3),
            "ttl_s": contender.ttl_s,
        }
        for contender in mutex.contenders()
    ]
    return json_response({"name": mutex.name, "holder": queue[0] if queue else None, "waiters": queue[1:]})
