"""Liveness and readiness of the process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import redis
from flask import Flask, Response, current_app

from app import services
from app.sales.advice import describe
from app.sales.refusals import PurchaseError
from app.web.responses import json_response, problem_response
from lock import EtcdError


def livez() -> Response:
    """``GET /livez``: asks no server."""
    return json_response({"status": "alive"})


def readyz() -> Response:
    """``GET /readyz``: asks etcd and Redis, which has to take writes, one second each.

    As ``/livez`` it waits for a free thread: while all threads sell, neither answers before a purchase ends.
    """
    made = services.of(current_app)
    states = {
        "etcd": _state(made.probed.read_etcd, EtcdError),
        "redis": _state(made.probed.require_writable, redis.RedisError),
        "sale": _state(made.probed.check, PurchaseError),
    }
    unusable = [name for name, state in states.items() if state != "ok"]
    if not unusable:
        return json_response({"status": "ready", **states})
    return problem_response(503, f"Cannot be used: {' and '.join(unusable)}.", kind="not_ready", **states)


def _state(ask: Callable[[], object], told: type[Exception]) -> str:
    """What the error that `ask` raises says, if it is of the class `told`; others are told by the other states."""
    with suppress(EtcdError, PurchaseError, redis.RedisError):
        try:
            ask()
        except told as error:
            return describe(error)
    return "ok"


def init_app(app: Flask) -> None:
    """Register what machines ask: the probes and the metrics."""
    app.add_url_rule("/livez", view_func=livez, methods=["GET"])
    app.add_url_rule("/readyz", view_func=readyz, methods=["GET"])
    app.add_url_rule("/metrics", view_func=services.of(app).metrics.expose, methods=["GET"])
