"""What Prometheus may ask: purchases by guard and outcome, and in progress, waiting and holding times, locks lost.

With several workers each counts in its own files, and any of them answers for all: prometheus-client's multiprocess
mode, for which ``gunicorn.conf.py`` sets a directory before this module is imported. All labels come from closed sets.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from flask import Flask, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from app.sales.purchase import LossCause, Outcome, Purchase, Receipt

# Otherwise each counter has a second series that says when it began.
disable_created_metrics()  # type: ignore[no-untyped-call]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The counters of one process.

    Args:
        instance: the name of the instance, itself shown as a metric.
        guards: the names of all guards.
    """

    def __init__(self, instance: str, guards: Iterable[str]) -> None:
        self.registry = r = CollectorRegistry()
        self.purchases = Counter("flashsale_purchases", "Purchases by outcome.", ("guard", "outcome"), registry=r)
        self.replays = Counter(
            "flashsale_replays", "Answers given again to an idempotency key.", ("guard",), registry=r
        )
        self.lost = Counter("flashsale_locks_lost", "Locks that were lost.", ("guard", "cause"), registry=r)
        self.waited = Histogram(
            "flashsale_waited_seconds", "Time before the critical section.", ("guard",), buckets=SECONDS, registry=r
        )
        self.held = Histogram(
            "flashsale_held_seconds", "Time inside the critical section.", ("guard",), buckets=SECONDS, registry=r
        )
        self.in_progress = Gauge(
            "flashsale_purchases_in_progress",
            "Purchases that have begun and are not over.",
            multiprocess_mode="livesum",
            registry=r,
        )
        names = Gauge(
            "flashsale_instance", "The instance that answers.", ("name",), multiprocess_mode="max", registry=r
        )
        names.labels(instance).set(1)
        for guard in guards:  # all series exist from the start: a rate would miss the first step of a late one
            for each in (self.replays, self.waited, self.held):
                each.labels(guard)
            for counter, values in ((self.purchases, Outcome), (self.lost, LossCause)):
                for value in values:
                    counter.labels(guard, value.value)

    def count(self, purchase: Purchase, receipt: Receipt) -> None:
        """Count a purchase that is over; a replayed answer is not a purchase."""
        guard = purchase.guard
        (self.replays.labels(guard) if receipt.replayed else self.purchases.labels(guard, receipt.outcome.value)).inc()
        self.waited.labels(guard).observe(purchase.waited_s)
        if purchase.entered is not None:
            self.held.labels(guard).observe(purchase.held_s)
        if purchase.loss is not None:
            self.lost.labels(guard, purchase.loss.value).inc()

    def outcomes(self) -> dict[str, int]:
        """Purchases of this process by outcome, under all guards."""
        counted = dict.fromkeys((outcome.value for outcome in Outcome), 0)
        for metric in self.purchases.collect():
            for sample in metric.samples:
                counted[sample.labels["outcome"]] += int(sample.value)
        return counted

    def expose(self) -> Response:
        """``GET /metrics``."""
        registry = self.registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def init_app(app: Flask, metrics: Metrics) -> None:
    """Register ``/metrics``."""
    app.add_url_rule("/metrics", view_func=metrics.expose, methods=["GET"])
