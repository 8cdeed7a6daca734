"""Metrics for Prometheus: purchases by guard and outcome, purchases in progress, waiting and holding times, lost locks.

All labels come from closed sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from flask import Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from app.contract.outcomes import ANSWERS, LossCause, Outcome
from app.sales.purchase import Purchase, Receipt, Section

disable_created_metrics()  # type: ignore[no-untyped-call]  # or each counter has a second series

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Series(NamedTuple):
    """What is counted under one guard."""

    purchases: Mapping[Outcome, Counter]
    replays: Counter
    lost: Mapping[LossCause, Counter]
    waited: Histogram
    held: Histogram


class Metrics:
    """The counters of the instance; its name is a metric, too."""

    def __init__(self, instance: str, guards: Iterable[str]) -> None:
        self.registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, labelnames=("guard",), buckets=SECONDS, registry=self.registry)
        self.purchases = counter("flashsale_purchases", "Purchases by outcome.", ("guard", "outcome"))
        self.replays = counter("flashsale_replays", "Answers given again to an idempotency key.", ("guard",))
        self.lost = counter("flashsale_locks_lost", "Locks that were lost.", ("guard", "cause"))
        self.waited = histogram("flashsale_waited_seconds", "Time before the critical section.")
        self.held = histogram("flashsale_held_seconds", "Time inside the critical section.")
        self.in_progress = gauge("flashsale_purchases_in_progress", "Purchases that have begun and not ended.")
        gauge("flashsale_instance", "The instance that answers.", ("name",)).labels(instance).set(1)
        # All series exist from the start: a rate would miss the first step of a late one.
        self._series = {
            guard: Series(
                {outcome: self.purchases.labels(guard, outcome.value) for outcome in ANSWERS},
                self.replays.labels(guard),
                {cause: self.lost.labels(guard, cause.value) for cause in LossCause},
                self.waited.labels(guard),
                self.held.labels(guard),
            )
            for guard in guards
        }

    def count(self, purchase: Purchase, receipt: Receipt) -> None:
        """Count a purchase that has ended; a replayed answer is not a purchase."""
        series = self._series[purchase.guard]
        (series.replays if receipt.replayed else series.purchases[receipt.outcome]).inc()
        section = purchase.section or Section(purchase)
        series.waited.observe(section.entered - purchase.began)
        if section.left is not None:
            series.held.observe(section.left - section.entered)
        if purchase.loss is not None:
            series.lost[purchase.loss].inc()

    def outcomes(self) -> dict[str, int]:
        """Purchases of this process by outcome, under all guards."""
        counted = dict.fromkeys((outcome.value for outcome in ANSWERS), 0)
        for metric in self.purchases.collect():
            for sample in metric.samples:
                counted[sample.labels["outcome"]] += int(sample.value)
        return counted

    def expose(self) -> Response:
        """``GET /metrics``."""
        return Response(generate_latest(self.registry), content_type=CONTENT_TYPE_LATEST)
