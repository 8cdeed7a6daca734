"""Being quicker than a command on its way to Redis, and losing the answer to one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis


@contextmanager
def overtaken(place: int | bytes, rival: Callable[[], object]) -> Iterator[None]:
    """Let `rival` come before the command in this place, from 0, or before the first that contains these bytes."""
    send, places, met = redis.Connection.send_packed_command, itertools.count(), list[bytes]()

    def send_after_rival(connection: redis.Connection, command: Any, *args: Any, **options: Any) -> None:
        text = command if isinstance(command, bytes) else b"".join(command)
        if not met and (next(places) == place if isinstance(place, int) else place in text):
            met.append(text)
            rival()
        send(connection, command, *args, **options)  # type: ignore[no-untyped-call]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis.Connection, "send_packed_command", send_after_rival)
        yield
    assert met or isinstance(place, int), f"nothing with {place!r} was sent"


@contextmanager
def answer_lost(marker: bytes) -> Iterator[None]:
    """Let Redis execute the first command sent inside that contains `marker`, and close its connection unheard."""
    send, lost = redis.Connection.send_packed_command, list[bytes]()

    def send_and_hang_up(connection: redis.Connection, command: Any, *args: Any, **options: Any) -> None:
        send(connection, command, *args, **options)  # type: ignore[no-untyped-call]
        text = command if isinstance(command, bytes) else b"".join(command)
        if marker in text and not lost:
            lost.append(marker)
            connection.read_response()
            connection.disconnect()  # type: ignore[no-untyped-call]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis.Connection, "send_packed_command", send_and_hang_up)
        yield
    assert lost, f"nothing with {marker!r} was sent"
