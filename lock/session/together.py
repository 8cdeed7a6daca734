"""Acquires and releases several locks of a session in one round trip each, for a thread that waits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lock.core.queue import Ticket
from lock.core.together import Together, release_together
from lock.errors import EtcdError, LockError
from lock.runtime.clock import now
from lock.runtime.interrupts import InterruptSafeEvent, run_uninterrupted
from lock.session.engine import Engine


def attempt(engine: Engine, together: Together) -> None:
    """Send it, and have all of its acquisitions told what etcd answers."""
    run_uninterrupted(_attempt, engine, together)


def release_all(engine: Engine, tickets: Sequence[Ticket], *, wait: bool) -> list[LockError]:
    """As `Engine.release` for all of them, in one deletion; what went wrong."""
    until, gone = now() + engine.client.timeout, InterruptSafeEvent()
    deletions = engine.core.deletions
    failures: list[LockError]
    groups, attended, failures = engine.tell(partial(release_together, engine.core, tickets, waits=wait))
    for ticket in attended:
        ticket.wake = gone.set
    error: EtcdError | None = None
    for request in groups:
        unanswered = partial(deletions.doubt, request)
        ask = partial(engine.client.call, engine.call_of(request), unanswered=unanswered)
        error = engine.exchange(deletions, request, ask) or error
    while not all(ticket.is_gone for ticket in attended) and now() < until and not engine.client.closed:
        gone.wait(until - now())
        gone.clear()
    return failures + check_all(engine, attended, error)


def check_all(engine: Engine, tickets: Sequence[Ticket], error: EtcdError | None) -> list[LockError]:
    """What went wrong with the tickets that were released; `error` is that of a deletion."""
    failures: list[LockError] = []
    for ticket in tickets:
        try:
            if not ticket.is_gone:
                engine.check_deletion(ticket, error)
            engine.check_released(ticket)
        except LockError as failure:
            failures.append(failure)
    return failures


def _attempt(engine: Engine, together: Together) -> None:
    step = engine.tell(together.begin)
    if step is not None:
        ask = partial(engine.client.call, engine.call_of(step.request), step.timeout, together.unanswered)
        engine.exchange(together, step.request, ask)
