"""Being quicker than a command on its way to Redis, and losing the answer to one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import redis

Act = Callable[[redis.Connection], object]


@contextmanager
def _meeting(place: int | bytes, before: Act, after: Act) -> Iterator[None]:
    """Act before and after the command in this place, from 0, or the first that contains these bytes, is sent."""
    send, places, met = redis.Connection.send_packed_command, itertools.count(), list[bytes]()

    def send_and_act(connection: redis.Connection, command: Any, *args: Any, **options: Any) -> None:
        text = command if isinstance(command, bytes) else b"".join(command)
        is_met = not met and (next(places) == place if isinstance(place, int) else place in text)
        if is_met:
            met.append(text)
            before(connection)
        send(connection, command, *args, **options)  # type: ignore[no-untyped-call]
        if is_met:
            after(connection)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis.Connection, "send_packed_command", send_and_act)
        yield
    assert met or isinstance(place, int), f"nothing with {place!r} was sent"


def overtaken(place: int | bytes, rival: Callable[[], object]) -> AbstractContextManager[None]:
    """Let `rival` come before the command in this place, from 0, or before the first that contains these bytes."""
    return _meeting(place, lambda _: rival(), lambda _: None)


def answer_lost(marker: bytes) -> AbstractContextManager[None]:
    """Let Redis execute the first command sent inside that contains `marker`, and close its connection unheard."""

    def hang_up(connection: Any) -> None:
        connection.read_response()
        connection.disconnect()

    return _meeting(marker, lambda _: None, hang_up)
