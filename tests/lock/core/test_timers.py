"""What is to happen in time: holds that end (`max_hold`), and what is told of waiters and of a lease in trouble."""

from __future__ import annotations

import math

import pytest

from lock.core.contention import Contention
from lock.core.expiry import Expiry
from lock.errors import HoldExpired
from lock.model import Event
from tests.lock.core.tickets import core_of, key, listed, written


def test_holds_end_in_the_order_of_their_ends() -> None:
    """Whatever the order in which they began; those that are over are met in vain, and not kept for ever."""
    core = core_of()
    expiry = Expiry(core)
    tickets = {written(core, f"{number}/"): float(number // 2 * 37 % 150 + 1) for number in range(300)}
    for ticket, end in tickets.items():
        assert expiry.expire_in(ticket, end, "was held for long", 0.0) == end
    held = list(tickets)[::4] + list(tickets)[1::4]
    briefs = [written(core, f"n{number}/") for number in range(300)]
    for over in [*(tickets.keys() - held), *briefs]:
        expiry.expire_in(over, 1.5, "", 0.0)
        core.endings.leave(over, 0.0)
        core.endings.gone(over, was_there=True)
    assert len(expiry._ends) < 2 * len(held) + 70
    ends = sorted({tickets[ticket] for ticket in held})
    for now, following in zip(ends, [*ends[1:], math.inf], strict=True):
        assert expiry.poll(math.nextafter(now, 0.0)) == now
        assert expiry.poll(now) == following
        for ticket in tickets:
            is_over = ticket in held and tickets[ticket] <= now
            assert (type(ticket.failure) is HoldExpired) is is_over
    assert "was held for long: key '0/a-1' is given up" in str(next(iter(tickets)).failure)


def test_the_driver_is_called_for_the_hold_that_ends_first() -> None:
    """By the core, which it asks when to call again; not for a later one, nor for one that is over."""
    core = core_of()
    expiry = Expiry(core)
    first, later, over = (written(core, f"{name}/") for name in "abc")
    core.endings.leave(over, 0.0)
    early = []
    for ticket, end in ((first, 2.0), (later, 3.0), (over, 1.0), (first, 1.0)):
        core.outbox.is_early = False
        expiry.expire_in(ticket, end, "", 0.0)
        early.append(core.outbox.is_early)
    expiry.expire_in(later, 4.0, "", 0.0)
    assert (early, core.outbox.is_early) == ([True, False, False, True], True)
    assert core.poll(0.5) == 1.0
    core.endings.leave(first, 0.5)
    core.poll(1.0)
    assert first.failure is None


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_waiter_is_told_once(is_held: bool, is_known: bool) -> None:
    """When it comes, or is there; not where the hold is over by then, and then its queue is left."""
    core = core_of()
    ticket = written(core, "m/")
    contention, queue = Contention(core, int), ticket.queue
    listed(core, "m/", 9, key(ticket.key, 2), *([key("m/b-1", 9, 0xB)] if is_known else []))
    if is_known and not is_held:
        core.endings.leave(ticket, 0.0)
    core.outbox.changes.clear()
    contention.begin(ticket, 0.0)
    assert contention.wake is int
    assert (contention in core.outbox.changes, contention in queue.observers) == (is_known and is_held, not is_known)
    if not is_known and not is_held:
        core.endings.leave(ticket, 0.0)
    for revision in (10, 11):
        core.following.handle_event("m/", [Event(False, key(f"m/b-{revision}", revision, 0xB))], 0.0)
    assert (core.outbox.changes.count(contention), contention in queue.observers) == (is_held, False)
