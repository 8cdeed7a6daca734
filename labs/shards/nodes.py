"""Nodes of Redis that do not answer: asked once, and then left out for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import redis

from app.sales.refusals import REDIS_ERRORS, again
from labs.shards.client import node_of

T = TypeVar("T")
SLOW_S = 0.25  # a node that takes longer to fail is frozen
FROZEN_S = 3.0  # for so long it is not asked again


class FrozenNodes:
    """Those of which the threads of this process know. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[float, Exception]] = {}

    def reach(self, client: redis.Redis, send: Callable[[], T]) -> T:
        """What `send` returns, which asks the node of this client.

        Raises one of REDIS_ERRORS; where the node is frozen, at once.
        """
        node = node_of(client)
        until, error = self._known.get(node, (0.0, None))
        asked = time.monotonic()
        if error and asked < until:
            raise again(error)
        try:
            return send()
        except REDIS_ERRORS as error:
            if time.monotonic() > asked + SLOW_S:
                self._known[node] = time.monotonic() + FROZEN_S, error
            raise

    def has_answered(self, client: redis.Redis) -> None:
        """The node of this client is not frozen any more."""
        if self._known:
            self._known.pop(node_of(client), None)
