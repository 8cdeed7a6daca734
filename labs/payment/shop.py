"""The ways to sell over HTTP, and a sweeper in each instance.

``FLASHSALE_PAYMENT_PROVIDER`` is the URL of the provider; without it nothing can be paid here.
"""

from __future__ import annotations

import logging
import threading

import redis
from flask import Flask, Response, request
from werkzeug.exceptions import BadRequest, NotFound

from app import services
from app.config.environment import EnvironmentSettings, HttpUrl
from app.sales.refusals import PurchaseError, sentence
from app.web.params import Parameters, checked_text
from app.web.responses import json_response, problem_response
from labs.payment.calls import Unanswered
from labs.payment.contract import Outcome, Payment
from labs.payment.provider import CARDS
from labs.payment.provider_client import ProviderClient
from labs.payment.shelf import Shelf
from labs.payment.ways import WAYS
from labs.payment.ways.base import Way
from lock import LockError

logger = logging.getLogger(__name__)

FAILURES = (Unanswered, LockError, PurchaseError, redis.RedisError)
SWEEP_S = 0.25
STATUS = {Outcome.PAID: 200, Outcome.DECLINED: 402}  # others: 409


class PaymentSettings(EnvironmentSettings):
    """Where the payment provider is."""

    payment_provider: HttpUrl | None = None


def init_app(app: Flask) -> None:
    """Register the route, and have a sweeper run with each worker process."""
    shop, ways = services.of(app), dict[str, Way]()
    if url := PaymentSettings.from_environment().payment_provider:
        for name, way in WAYS.items():
            ways[name] = way(Shelf(shop.sale.client, shop.settings.sale, name), ProviderClient(url), shop.sessions)
        shop.background.append(Sweeper(ways))

    @app.post("/payments")
    def pay() -> Response:
        """Buy an item and pay for it."""
        if not ways:
            raise NotFound("There is no payment provider: set FLASHSALE_PAYMENT_PROVIDER, or run make payment.")
        parameters, key = Parameters(request, "way", "card"), request.headers.get("Idempotency-Key")
        if key is None:
            raise BadRequest("Send an Idempotency-Key: a retry without one would pay twice.")
        payment = Payment(checked_text("Idempotency-Key", key), parameters.choice("card", "good", CARDS))
        way = parameters.choice("way", "reserve-checked", ways)
        try:
            outcome = ways[way].buy(payment)
        except FAILURES as error:
            detail = f"{sentence(error)} Ask again with the same Idempotency-Key, which never pays twice."
            return problem_response(503, detail, kind="unavailable", outcome="unavailable")
        return json_response({"outcome": outcome.value, "way": way}, status=STATUS.get(outcome, 409))


class Sweeper(threading.Thread):
    """Has each way look again and again for what was left behind."""

    def __init__(self, ways: dict[str, Way]) -> None:
        super().__init__(name="payment-sweeper", daemon=True)
        self._ways = ways
        self._closing = threading.Event()

    def run(self) -> None:
        while not self._closing.wait(SWEEP_S):
            for name, way in self._ways.items():
                try:
                    way.sweep()
                except FAILURES as error:
                    logger.info("%s: %s", name, error)

    def close(self) -> None:
        """End after the sweep under way."""
        self._closing.set()
