"""One stream of events for all viewers: what is sampled once is encoded once and sent to everybody.

Server-sent events, as the HTML standard has them. Each event has an id, so that a browser that was cut off goes on
where it was; one that was away for too long, or comes to a board that has begun anew, is told everything.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

KEPT = 100  # events; some ten seconds
RETRY_MS = 1000
HEARTBEAT_S = 5.0
LIFETIME_S = 600.0
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class TooManyViewers(Exception):
    """There is no place left for one more."""


class Feed:
    """Hands events to viewers. Thread-safe.

    Args:
        everything: what a viewer has to be told who knows nothing yet.
        viewers: most viewers at once.
        lifetime: seconds after which a viewer is sent away, to come again: what is forgotten by a proxy ends too.
    """

    def __init__(self, everything: Callable[[], Any], *, viewers: int, lifetime: float = LIFETIME_S) -> None:
        self._everything = everything
        self._most = viewers
        self._lifetime = lifetime
        self._series = secrets.token_hex(4)
        self._events: deque[tuple[int, bytes]] = deque(maxlen=KEPT)
        self._number = 0
        self._hello: tuple[int, bytes] = (-1, b"")
        self._viewers = 0
        self._closed = False
        self.changed = threading.Condition(threading.RLock())

    @property
    def viewers(self) -> int:
        """How many look on."""
        return self._viewers

    def publish(self, event: str, data: Any) -> None:
        """Send `data` to everybody; call it with `changed` held, so that `everything` is of the same moment."""
        with self.changed:
            self._number += 1
            self._events.append((self._number, self._encode(event, data)))
            self.changed.notify_all()

    def close(self) -> None:
        """Send everybody away."""
        with self.changed:
            self._closed = True
            self.changed.notify_all()

    def view(self, last_id: str | None) -> Iterator[bytes]:
        """The stream for one more viewer, who saw the event `last_id` last.

        Raises:
            TooManyViewers: at once, not when the stream is read.
        """
        with self.changed:
            if self._viewers >= self._most:
                raise TooManyViewers(f"{self._viewers} viewers look on already")
            self._viewers += 1
        return _Counted(self._stream(self._seen(last_id)), self._leave)

    def _leave(self) -> None:
        with self.changed:
            self._viewers -= 1

    def _seen(self, last_id: str | None) -> int | None:
        """The number of the event with this id, if it is one of this board's."""
        series, _, number = (last_id or "").partition("-")
        return int(number) if series == self._series and number.isdigit() else None

    def _stream(self, seen: int | None) -> Iterator[bytes]:
        until = time.monotonic() + self._lifetime
        yield b"retry: %d\n\n" % RETRY_MS
        while time.monotonic() < until:
            with self.changed:
                if not self._number or seen == self._number:
                    self.changed.wait(HEARTBEAT_S)
                if self._closed:
                    return
                news = self._since(seen)
            if news:
                seen = news[-1][0]
            yield b"".join(text for _, text in news) or b": still here\n\n"

    def _since(self, seen: int | None) -> list[tuple[int, bytes]]:
        """What one who saw event `seen` has not seen yet: the events since, or everything, once there is anything."""
        if not self._number:
            return []
        oldest = self._events[0][0] if self._events else self._number + 1
        if seen is None or not oldest - 1 <= seen <= self._number:
            if self._hello[0] != self._number:
                self._hello = (self._number, self._encode("hello", self._everything()))
            return [self._hello]
        return [event for event in self._events if event[0] > seen]

    def _encode(self, event: str, data: Any) -> bytes:
        return f"id: {self._series}-{self._number}\nevent: {event}\ndata: {_encode(data)}\n\n".encode()


class _Counted:
    """A stream that says when it is over, also if it was never begun."""

    def __init__(self, stream: Iterator[bytes], over: Callable[[], None]) -> None:
        self._stream = stream
        self._over: Callable[[], None] | None = over

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._stream)

    def close(self) -> None:
        over, self._over = self._over, None
        if over is not None:
            over()
