"""One stream of server-sent events for all viewers: what is sampled once is encoded once and sent to all of them.

A viewer that is new, reconnects, or was too slow for the events that are kept is sent a whole snapshot.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from werkzeug.wsgi import ClosingIterator

KEPT = 100  # events; some ten seconds
HEARTBEAT_S = 5.0
LIFETIME_S = 600.0  # then a viewer has to reconnect: a proxy may keep a stream without one
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class TooManyViewers(Exception):
    """As many viewers as allowed are connected."""


class EventStream:
    """Hands events to viewers. Thread-safe; one thread publishes.

    Nothing is encoded under the lock that viewers wait for.

    Args:
        snapshot: returns everything for a new viewer, and the `number` at that moment.
        viewers: most viewers at once.

    Attributes:
        number: how many events were published.
    """

    def __init__(self, snapshot: Callable[[], tuple[int, Any]], *, viewers: int) -> None:
        self._snapshot = snapshot
        self._most = viewers
        self._events: deque[bytes] = deque(maxlen=KEPT)  # the last of all
        self.number = 0
        self._streams = set[Iterator[bytes]]()
        self._closed = False
        self._changed = threading.Condition()

    @property
    def viewers(self) -> int:
        return len(self._streams)

    def publish(self, event: str, data: Any) -> None:
        text = _event(event, data)
        with self._changed:
            self.number += 1
            self._events.append(text)
            self._changed.notify_all()

    def close(self) -> None:
        """End all streams, and every later one at once."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def view(self) -> Iterator[bytes]:
        """The stream for one more viewer.

        Raises:
            TooManyViewers: at once, not when the stream is read.
        """
        with self._changed:
            if self.viewers >= self._most:
                raise TooManyViewers(f"{self.viewers} viewers are connected already")
            stream = self._stream()
            self._streams.add(stream)
        return ClosingIterator(stream, lambda: self._streams.discard(stream))  # closed also if it was never begun

    def _stream(self) -> Iterator[bytes]:
        number, until = 0, time.monotonic() + LIFETIME_S
        while time.monotonic() < until:
            news = self._wait(number)
            if self._closed:
                return
            if news is None:
                number, everything = self._snapshot()
                news = [_event("hello", everything)]
            else:
                number += len(news)
            yield b"".join(news) or b": still here\n\n"

    def _wait(self, number: int) -> list[bytes] | None:
        """The events after `number`, as soon as there are any; `None` if only a snapshot can tell."""
        with self._changed:
            # A stream that was closed before this wait notifies no more.
            self._changed.wait_for(lambda: self._closed or self.number != number, HEARTBEAT_S)
            new = self.number - number
            if self.number and (not number or new > len(self._events)):
                return None
            return list(self._events)[len(self._events) - new :]


def _event(name: str, data: Any) -> bytes:
    return f"event: {name}\ndata: {_encode(data)}\n\n".encode()
