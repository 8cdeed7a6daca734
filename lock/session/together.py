"""Acquires several locks of a session in one round trip, and releases one or several, for a thread that waits.

Error handling: what went wrong with a release is told when all are done with.
"""

import logging
from collections.abc import Sequence
from functools import partial

from lock.core.queue import Ticket
from lock.core.together import Together
from lock.errors import EtcdUnavailable, LockError, LockLost
from lock.etcd.grpc_errors import CLOSED
from lock.runtime.clock import now
from lock.runtime.interrupts import InterruptSafeEvent
from lock.session.engine import Engine

logger = logging.getLogger(__name__)


def attempt(engine: Engine, together: Together) -> None:
    """Send it, and have all of its acquisitions told what etcd answers. Where no interrupt comes."""
    step = engine.apply_here(together.begin)
    if step is not None:
        send = partial(engine.client.call_here, engine.call_of(step.request), step.timeout, together.unanswered)
        engine.exchange(together, step.request, send)


def release_all(engine: Engine, tickets: Sequence[Ticket], *, wait: bool) -> list[LockError]:
    """Free the locks; what went wrong. Where no interrupt comes.

    Returns when the keys are deleted, or the client's timeout is over; at once where it is not to `wait`, or where the
    next holder is of this session.
    """
    until, deletions = now() + engine.client.timeout, engine.core.deletions
    groups, attended, failures = engine.apply_here(partial(deletions.release_all, tickets, waits=wait))
    for request in groups:
        call, unanswered = engine.call_of(request), partial(deletions.doubt, request)
        engine.exchange(deletions, request, partial(engine.client.call_here, call, unanswered=unanswered))
    wait_until_gone(engine, attended, until)
    return [*failures, *check_all(engine, attended)]


def wait_until_gone(engine: Engine, tickets: Sequence[Ticket], until: float) -> None:
    """Wait until then for deletions that were sent and have not freed the lock. Where no interrupt comes."""
    waiting = [ticket for ticket in tickets if not ticket.is_released]
    if waiting:
        gone = InterruptSafeEvent()
        for ticket in waiting:
            ticket.wake = gone.set
        while not is_over(engine, waiting, until):
            gone.wait(until - now())
            gone.clear()


def is_over(engine: Engine, tickets: Sequence[Ticket], until: float) -> bool:
    """Whether there is nothing to wait for: the keys are deleted, or will not be in time."""
    return all(ticket.is_released for ticket in tickets) or now() >= until or engine.client.closed


def check_all(engine: Engine, tickets: Sequence[Ticket]) -> list[LockError]:
    """What went wrong with the tickets that were released."""
    failures: list[LockError] = []
    for ticket in tickets:
        try:
            check(engine, ticket)
        except LockError as failure:
            failures.append(failure)
    return failures


def check(engine: Engine, ticket: Ticket) -> None:
    """Raise where it was lost, or will not be deleted; the deletion may still be on its way."""
    core = engine.core
    if not ticket.is_released and engine.client.closed:
        end = f"it goes with its lease, within {core.ttl} s"
        raise EtcdUnavailable(f"{CLOSED} before key {ticket.key!r} was released: {end}")
    engine.ensure(ticket)
    if ticket.is_released:
        if not ticket.was_there:
            raise LockLost(f"key {ticket.key!r} was gone before it was released")
    elif not core.deletions.is_reported:  # once, for all keys that are deleted later
        core.deletions.is_reported = True
        logger.warning("key %s, and maybe others, are deleted later: etcd did not confirm it in time", ticket.key)
