"""Being quicker than a command that is about to be sent to Redis."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis


@contextmanager
def overtaken(place: int, rival: Callable[[], object]) -> Iterator[None]:
    """Let `rival` come before the command in this place, from 0, of those that are sent inside."""
    send, places = redis.Connection.send_packed_command, itertools.count()

    def send_after_rival(connection: redis.Connection, *command: Any, **options: Any) -> None:
        if next(places) == place:
            rival()
        send(connection, *command, **options)  # type: ignore[no-untyped-call]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis.Connection, "send_packed_command", send_after_rival)
        yield
