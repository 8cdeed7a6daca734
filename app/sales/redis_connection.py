"""Connections to Redis, and the errors in which they end.

No connection is told apart from no answer, and a Redis that answers, and does not take writes now, from a defect: see
`Refused`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import redis
from redis.connection import DefaultParser


class NotSent(redis.ConnectionError):
    """There was no connection to Redis, so the command was surely not executed."""


class Refused(redis.ResponseError):
    """Redis is read-only, full, busy or cannot save, and has written nothing.

    A script is refused at its first write or not at all, and of a transaction either everything is executed or nothing.
    """

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self._said = said

    def __str__(self) -> str:  # not the arguments: redis-py writes the whole command of a pipeline into them
        return f"Redis refused: {self._said}"


class Moved(Refused):
    """This node of a cluster does not have the key's slot, or not now."""


class Parser(DefaultParser):  # type: ignore[misc, valid-type]
    """Knows a refusal, also as EXEC or a script tells it."""

    REFUSALS: Mapping[re.Pattern[str], type[Refused]] = {
        re.compile(
            r"(?:EXECABORT .*: )?(?:READONLY|OOM|MISCONF|NOREPLICAS|MASTERDOWN|BUSY) (.*?)(?: script: .*)?"
        ): Refused,
        re.compile(r"(?:EXECABORT .*: )?((?:MOVED|ASK|TRYAGAIN|CLUSTERDOWN) .*)"): Moved,
    }

    @classmethod
    def parse_error(cls, response: str) -> Exception:
        for pattern, kind in cls.REFUSALS.items():
            if found := pattern.fullmatch(response):
                return kind(found[1])
        error: Exception = super().parse_error(response)
        return error


class Pool(redis.BlockingConnectionPool):
    """A pool that tells "no connection" from "no answer"; a stale connection is replaced before anything is sent."""

    def get_connection(self, *args: Any, **kwargs: Any) -> Any:
        """A connection that is open.

        Raises:
            NotSent: Redis cannot be reached, or no connection became free in time.
        """
        try:
            return super().get_connection(*args, **kwargs)  # type: ignore[no-untyped-call]
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise NotSent(str(error)) from error
