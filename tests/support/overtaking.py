"""Being quicker than a command on its way to Redis, and losing the answer to one."""

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


@contextmanager
def overtaken_at(marker: bytes, rival: Callable[[], object]) -> Iterator[None]:
    """Let `rival` come before the first command sent inside that contains `marker`."""
    send, met = redis.Connection.send_packed_command, list[bytes]()

    def send_after_rival(connection: redis.Connection, command: Any, *args: Any, **options: Any) -> None:
        text = command if isinstance(command, bytes) else b"".join(command)
        if marker in text and not met:
            met.append(marker)
            rival()
        send(connection, command, *args, **options)  # type: ignore[no-untyped-call]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis.Connection, "send_packed_command", send_after_rival)
        yield
    assert met, f"nothing with {marker!r} was sent"


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
