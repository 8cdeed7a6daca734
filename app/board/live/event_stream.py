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

Event = tuple[int, bytes]


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
        self._events: deque[Event] = deque(maxlen=KEPT)
        self.number = 0
        self._streams = set[Iterator[bytes]]()
        self._closed = False
        self._changed = threading.Condition()

    @property
    def viewers(self) -> int:
        """How many are connected."""
        return len(self._streams)

    def publish(self, event: str, data: Any) -> None:
        number = self.number + 1
        text = _event(event, data)
        with self._changed:
            self.number = number
            self._events.append((number, text))
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
        seen, until = 0, time.monotonic() + LIFETIME_S
        while time.monotonic() < until:
            news = self._wait(seen)
            if self._closed:
                return
            if news is None:
                number, everything = self._snapshot()
                news = [(number, _event("hello", everything))]
            if news:
                seen = news[-1][0]
            yield b"".join(text for _, text in news) or b": still here\n\n"

    def _wait(self, seen: int) -> list[Event] | None:
        """The events after `seen`, as soon as there are any; None if only a snapshot can tell."""
        with self._changed:
            # A stream that was closed before this wait notifies no more.
            self._changed.wait_for(lambda: self._closed or self.number != seen, HEARTBEAT_S)
            if self.number and (not seen or seen < self._events[0][0] - 1):
                return None
            return [event for event in self._events if event[0] > seen]


def _event(name: str, data: Any) -> bytes:
    return f"event: {name}\ndata: {_encode(data)}\n\n".encode()
