"""What happened in one run of a case, as the witnesses saw it: events in order, with seconds since the beginning."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

SERVER = "server"


@dataclass(frozen=True)
class HistoryEvent:
    """Something that a contender or the server did.

    Attributes:
        at_s: seconds since the case began.
        actor: a contender, `SERVER`, or "network".
        what: a key of ``words.json``, under "events".
        about: the values of its sentence.
    """

    at_s: float
    actor: str
    what: str
    about: dict[str, Any] = field(default_factory=dict)


class CaseHistory:
    """The events of one run; threads may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.restart()

    def restart(self) -> None:
        """Forget what happened, and count time from now."""
        self._events: list[HistoryEvent] = []
        self._began = time.monotonic()

    def now(self) -> float:
        return time.monotonic() - self._began

    def note(self, actor: str, what: str, *, at: float | None = None, **about: Any) -> None:
        """Add an event of now, or of a time of the monotonic clock."""
        at_s = self.now() if at is None else at - self._began
        with self._lock:
            self._events.append(HistoryEvent(round(at_s, 3), actor, what, about))

    @property
    def events(self) -> list[HistoryEvent]:
        """All events, in order of time."""
        with self._lock:
            return sorted(self._events, key=lambda event: event.at_s)

    def first(self, actor: str, what: str) -> float | None:
        """When an actor first did that, in seconds since the beginning."""
        return next((event.at_s for event in self.events if (event.actor, event.what) == (actor, what)), None)
