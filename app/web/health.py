"""Liveness and readiness of the process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import redis
from flask import Flask, Response

from app.config.settings import Settings
from app.locking.etcd_sessions import EtcdSessions
from app.sales.opening import OpeningRecord
from app.sales.redis_client import connect
from app.sales.refusals import SaleLost
from app.sales.sale import Sale
from app.web.responses import json_response, problem_response
from lock import EtcdError

TIMEOUT = 1.0


class Health:
    """``/livez`` asks no server; ``/readyz`` asks etcd and Redis, which has to take writes, one second each.

    Both wait for a free thread: while all threads sell, neither answers before a purchase ends.
    """

    def __init__(self, settings: Settings, sessions: EtcdSessions) -> None:
        # Its own client, with shorter deadlines: the connections of the shop's client are for buyers.
        self._redis = connect(settings.redis_url, connections=2, timeout=TIMEOUT)
        self._sessions = sessions
        record = OpeningRecord(sessions.client, settings.sale, timeout=TIMEOUT)
        stock, items, shards = settings.stock, settings.items, settings.shards
        self._sale = Sale(self._redis, settings.sale, record=record, stock=stock, items=items, shards=shards)

    def livez(self) -> Response:
        return json_response({"status": "alive"})

    def readyz(self) -> Response:
        states = {
            "etcd": _state(lambda: self._sessions.client.status(timeout=TIMEOUT)),
            "redis": _state(self._write_nothing),
            "sale": self._sale_state(),
        }
        unusable = [name for name, state in states.items() if state != "ok"]
        if not unusable:
            return json_response({"status": "ready", **states})
        return problem_response(503, f"Cannot be used: {' and '.join(unusable)}.", kind="not_ready", **states)

    def _write_nothing(self) -> None:
        """Replace a key that does not exist, in a script: Redis refuses that if it would refuse a purchase."""
        self._sale.client.eval("redis.call('SET', KEYS[1], '', 'XX')", 1, self._sale.keys.nothing)

    def _sale_state(self) -> str:
        with suppress(EtcdError, redis.RedisError):  # the states of etcd and Redis say so
            try:
                self._sale.snapshot()
            except SaleLost as error:
                return str(error)
        return "ok"

    def close(self) -> None:
        self._redis.close()


def _state(ask: Callable[[], object]) -> str:
    try:
        ask()
    except (EtcdError, redis.RedisError) as error:
        return str(error)
    return "ok"


def init_app(app: Flask, health: Health) -> None:
    """Register the probes."""
    app.add_url_rule("/livez", view_func=health.livez, methods=["GET"])
    app.add_url_rule("/readyz", view_func=health.readyz, methods=["GET"])
