"""Liveness and readiness of the process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import redis
from flask import Blueprint, Response, current_app

from app import services
from app.sales.advice import describe
from app.sales.refusals import PurchaseError
from app.web.responses import json_response, problem_response
from lock import EtcdError

probes = Blueprint("probes", __name__)


@probes.get("/livez")
def livez() -> Response:
    """Whether the process runs, and since when; calls no server."""
    return json_response({"status": "alive", "started": services.of(current_app).started})


@probes.get("/readyz")
def readyz() -> Response:
    """Whether etcd can be reached, Redis takes writes, and Redis has the sale; each check ends after a second.

    Like ``/livez`` it needs a thread: while all threads run purchases, both wait for one.
    """
    probed = services.of(current_app).probed
    states = {
        "etcd": _state(probed.read_etcd, EtcdError),
        "redis": _state(probed.require_writable, redis.RedisError),
        "sale": _state(probed.check, PurchaseError),
    }
    unusable = [name for name, state in states.items() if state != "ok"]
    if not unusable:
        return json_response({"status": "ready", **states})
    return problem_response(503, f"Cannot be used: {' and '.join(unusable)}.", kind="not_ready", **states)


def _state(probe: Callable[[], object], kind: type[Exception]) -> str:
    """``ok``, or the message of an error of this `kind`. Errors of another kind are shown by their own probe."""
    with suppress(EtcdError, PurchaseError, redis.RedisError):
        try:
            probe()
        except kind as error:
            return describe(error)
    return "ok"


@probes.get("/metrics")
def metrics() -> Response:
    """The metrics of this process, for Prometheus."""
    return services.of(current_app).metrics.expose()
