"""Liveness and readiness of the process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import redis
from flask import Flask, Response

from app.sales.refusals import SaleLost
from app.sales.sale import Sale
from app.services import PROBE_TIMEOUT, Services
from app.web.responses import json_response, problem_response
from lock import Client, EtcdError


@dataclass(frozen=True)
class Health:
    """``/livez`` asks no server; ``/readyz`` asks etcd and Redis, which has to take writes, one second each.

    Both wait for a free thread: while all threads sell, neither answers before a purchase ends.
    """

    etcd: Client
    sale: Sale

    def livez(self) -> Response:
        return json_response({"status": "alive"})

    def readyz(self) -> Response:
        states = {
            "etcd": _state(lambda: self.etcd.status(timeout=PROBE_TIMEOUT)),
            "redis": _state(self._write_nothing),
            "sale": self._sale_state(),
        }
        unusable = [name for name, state in states.items() if state != "ok"]
        if not unusable:
            return json_response({"status": "ready", **states})
        return problem_response(503, f"Cannot be used: {' and '.join(unusable)}.", kind="not_ready", **states)

    def _write_nothing(self) -> None:
        """Replace a key that does not exist, in a script: Redis refuses that if it would refuse a purchase."""
        self.sale.client.eval("redis.call('SET', KEYS[1], '', 'XX')", 1, self.sale.keys.nothing)

    def _sale_state(self) -> str:
        with suppress(EtcdError, redis.RedisError):  # the states of etcd and Redis say so
            try:
                self.sale.snapshot()
            except SaleLost as error:
                return str(error)
        return "ok"


def _state(ask: Callable[[], object]) -> str:
    try:
        ask()
    except (EtcdError, redis.RedisError) as error:
        return str(error)
    return "ok"


def init_app(app: Flask, services: Services) -> None:
    """Register what machines ask: the probes and the metrics."""
    health = Health(services.sessions.client, services.probed)
    app.add_url_rule("/livez", view_func=health.livez, methods=["GET"])
    app.add_url_rule("/readyz", view_func=health.readyz, methods=["GET"])
    app.add_url_rule("/metrics", view_func=services.metrics.expose, methods=["GET"])
