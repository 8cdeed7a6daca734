"""The ways to sell over HTTP, and a sweeper in each instance; without a provider there is neither money nor sweeper.

``FLASHSALE_PAYMENT_PROVIDER`` is the URL of the provider.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import redis
from flask import Flask, Response, request
from werkzeug.exceptions import BadRequest, NotFound

from app import services
from app.config.environment import EnvironmentSettings, HttpUrl
from app.sales.refusals import PurchaseError, sentence
from app.web.params import Parameters, checked_text
from app.web.responses import json_response, problem_response
from labs.payment.contract import Outcome, Payment
from labs.payment.provider_client import ProviderClient, Unanswered
from labs.payment.shelf import Shelf
from labs.payment.ways import WAYS
from labs.payment.ways.base import Way
from lock import LockError

logger = logging.getLogger(__name__)

FAILURES = (Unanswered, LockError, PurchaseError, redis.RedisError)
SWEEP_S = 0.25
STATUS = {Outcome.PAID: 200, Outcome.DECLINED: 402}  # all others: 409


class PaymentSettings(EnvironmentSettings):
    """Where the payment provider is."""

    payment_provider: HttpUrl | None = None


def init_app(app: Flask) -> None:
    """Register the route, and have a sweeper run with each worker process."""
    shop, url = services.of(app), PaymentSettings.from_environment().payment_provider
    ways: dict[str, Way] = {}
    if url:
        provider, sale = ProviderClient(url), shop.settings.sale
        for name, way in WAYS.items():
            ways[name] = way(Shelf(shop.sale.client, sale, name), provider, shop.sessions)
        shop.background.append(Sweeper(list(ways.values())))

    def pay() -> Response:
        """``POST /payments``: buy an item and pay for it."""
        if not ways:
            raise NotFound("There is no payment provider: set FLASHSALE_PAYMENT_PROVIDER, or run make payment.")
        parameters = Parameters(request, "way", "card")
        way, key = parameters.choice("way", "reserve-checked", ways), request.headers.get("Idempotency-Key")
        if key is None:
            raise BadRequest("Send an Idempotency-Key: a retry without one would pay twice.")
        payment = Payment(checked_text("Idempotency-Key", key), parameters.text("card", "good"))
        try:
            outcome = ways[way].buy(payment)
        except FAILURES as error:
            detail = f"{sentence(error)} Ask again with the same Idempotency-Key, which never pays twice."
            return problem_response(503, detail, kind="unavailable", outcome="unavailable")
        return json_response({"outcome": outcome.value, "way": way}, status=STATUS.get(outcome, 409))

    app.add_url_rule("/payments", view_func=pay, methods=["POST"])


class Sweeper(threading.Thread):
    """Has each way look again and again for what was left behind."""

    def __init__(self, ways: Sequence[Way]) -> None:
        super().__init__(name="payment-sweeper", daemon=True)
        self._ways = ways
        self._closing = threading.Event()

    def run(self) -> None:
        logged = ""
        while not self._closing.wait(SWEEP_S):
            for way in self._ways:
                try:
                    way.sweep()
                except FAILURES as error:
                    if str(error) != logged:  # once, however long the provider is away
                        logged = str(error)
                        logger.warning("payment sweeper: %s", logged)

    def close(self) -> None:
        """End after the sweep under way."""
        self._closing.set()
