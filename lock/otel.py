"""Waiting and holding as OpenTelemetry shows them; needs ``pip install 'etcd-lock[opentelemetry]'``.

>>> from lock.otel import instrument
>>> instrument(session, slow_hold=3)  # all locks of the session, for threads and for tasks

What is measured carries the outcome and not the name of the lock, of which there may be one for each user.
"""

import functools
import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from opentelemetry.metrics import Meter, MeterProvider, get_meter

from lock.core.queue import Ticket
from lock.recipes.cohort import CohortMutex
from lock.recipes.hold import HeldKey, Releasable
from lock.recipes.queued_lock import QueuedLock
from lock.runtime.clock import check_number
from lock.session.session import Session

SCOPE = "etcd-lock"

logger = logging.getLogger(__name__)


def instrument(
    session: Session, *, slow_hold: float | None = None, meter_provider: MeterProvider | None = None
) -> None:
    """Measure the locks of a session: of every recipe, for threads and tasks, also those that exist already.

    - ``lock.waiter.count``, ``lock.hold.count``: up-down counters of what waits and what is held now.
    - ``lock.losses``: a counter, with the cause in ``error.type``: ``HoldExpired``, ``SessionLost``, ``LockLost``.
    - ``lock.wait.duration``, ``lock.hold.duration``: histograms, in seconds, with ``lock.outcome``: ``held``, ``taken``
      (a try found it taken), ``released``, or the name of the error.

    A `MultiLock` counts once for each of its names, a `CohortMutex` for each turn.

    Args:
        session: it is measured until it ends.
        slow_hold: seconds after which a hold is logged as a warning, once, with the line that acquired it; `None`:
            never.
        meter_provider: `None` for the global one.

    Raises:
        TypeError: `session` is none, or `slow_hold` is no number.
        ValueError: the session is measured already, or `slow_hold` is not more than 0.
    """
    if not isinstance(session, Session):
        raise TypeError(f"instrument takes a Session, such as Session(client); got {session!r}")
    if slow_hold is not None:
        check_number(slow_hold, lambda seconds: seconds > 0, "slow_hold is seconds, more than 0, or None")
    with _instrumenting:
        if session in _measured:
            raise ValueError(f"session {session.name} is measured already: instrument each session once")
        _observe_recipes()
        _measured[session] = _Measurements(get_meter(SCOPE, meter_provider=meter_provider))
    if slow_hold is not None:
        watch = _measured[session].watch_slow_holds
        threading.Thread(target=watch, args=(slow_hold, session.lost), name="lock-slow-holds", daemon=True).start()


class _Measurements:
    """What waits and what is held in one session; told by its recipes, in any thread."""

    def __init__(self, meter: Meter) -> None:
        self._waiting = meter.create_up_down_counter("lock.waiter.count", "{waiter}", "Calls that wait for a lock now.")
        self._holding = meter.create_up_down_counter("lock.hold.count", "{hold}", "Locks that are held now.")
        self._losses = meter.create_counter("lock.losses", "{loss}", "Holds that were lost, by cause.")
        self._waited = meter.create_histogram("lock.wait.duration", "s", "From the call to its hold, or to its error.")
        self._held = meter.create_histogram("lock.hold.duration", "s", "How long a lock was held.")
        self._waits: dict[Any, tuple[float, BaseException | None]] = {}
        self._holds: dict[Ticket, _Held] = {}

    def started(self, acquisition: Any) -> None:
        self._waits[acquisition] = time.monotonic(), sys.exc_info()[1]
        self._waiting.add(1)

    def stopped(self, acquisition: Any) -> None:
        """A wait has ended: with a hold, with the error that is on its way, or because a try found it taken."""
        began, handled = self._waits.pop(acquisition, (None, None))
        if began is None:
            return
        error, ticket = sys.exc_info()[1], acquisition.ticket
        if error is not None and error is not handled:  # by the caller, before
            outcome = type(error).__name__
        else:
            is_held = ticket is not None and ticket.granted_at > 0  # also if it is lost already
            outcome = "held" if is_held else "taken"
        self._waiting.add(-1)
        self._waited.record(time.monotonic() - began, {"lock.outcome": outcome})

    def begun(self, held: HeldKey) -> None:
        ticket = held._ticket
        self._holds[ticket] = _Held(time.monotonic(), held.name)
        self._holding.add(1)
        if not held._add_listener(partial(self.ended, ticket)):
            self.ended(ticket)

    def ended(self, ticket: Ticket) -> None:
        """A hold was released, or is lost; once."""
        hold = self._holds.pop(ticket, None)
        if hold is None:
            return
        outcome = "released" if ticket.failure is None else type(ticket.failure).__name__
        self._holding.add(-1)
        self._held.record(time.monotonic() - hold.began, {"lock.outcome": outcome})
        if ticket.failure is not None:
            self._losses.add(1, {"error.type": outcome})

    def watch_slow_holds(self, limit: float, over: threading.Event) -> None:
        """Log each hold that is longer than that many seconds, until the session is over; in its own thread."""
        while not over.wait(limit / 4):
            for ticket, hold in list(self._holds.items()):
                if not hold.is_logged and time.monotonic() > hold.began + limit:
                    hold.is_logged = True
                    logger.warning(
                        "lock %r, acquired at %s, is held for more than %g s: key %r",
                        hold.name, ticket.where, limit, ticket.key,
                    )  # fmt: skip


@dataclass
class _Held:
    began: float
    name: str
    is_logged: bool = False


_measured: WeakKeyDictionary[Session, _Measurements] = WeakKeyDictionary()
_instrumenting = threading.Lock()

_CALLS: list[tuple[type, str, Callable[..., object]]] = [
    *((recipe, "_start", lambda to, _, __, wait: to.started(wait)) for recipe in (QueuedLock, CohortMutex)),
    *((recipe, "_finish", lambda to, _, __, held: to.begun(held)) for recipe in (QueuedLock, CohortMutex)),
    (QueuedLock, "_stop", lambda to, _, args, __: to.stopped(*args)),
    (HeldKey, "_pass_on", lambda to, _, __, held: to.begun(held)),
    (Releasable, "_forget", lambda to, held, *_: to.ended(getattr(held, "_ticket", None))),
]


@functools.cache
def _observe_recipes() -> None:
    """Have the recipes tell what they do. Until it is needed, nothing of this stands in their way."""
    for call in _CALLS:
        _observe(*call)


def _observe(kind: type, name: str, tell: Callable[..., object]) -> None:
    """After each call of a method, tell the measurements of its session: object, arguments and result."""
    method = vars(kind)[name]

    @functools.wraps(method)
    def observed(self: Any, *args: Any, **options: Any) -> Any:
        result = method(self, *args, **options)
        measurements = _measured.get(self._session if isinstance(self, Releasable) else self.session)
        if measurements is not None:
            tell(measurements, self, args, result)
        return result

    setattr(kind, name, observed)
