"""Deletions that nobody waits to send: when they go, which together, and what becomes of their tickets."""

from __future__ import annotations

import logging
import math

import pytest

from lock.core.core import Core
from lock.core.messages import MOST, Delete, Deleted, ListLease
from lock.core.queue import Stage, Ticket
from tests.lock.core.tickets import AWAY, DENIED, commands_of, core_of, written


def leaving(core: Core, name: str) -> Ticket:
    ticket = written(core, f"{name}/")
    ticket.stage = Stage.RELEASING
    return ticket


def released(core: Core, *names: str, may_wait: bool = False) -> list[Ticket]:
    """Tickets of these names whose keys are to be deleted."""
    tickets = [leaving(core, name) for name in names]
    for ticket in tickets:
        core.deletions.add(ticket, 0.0, may_wait=may_wait)
    return tickets


def there(request: Delete, was_there: bool = True, revision: int = 9) -> Deleted:
    return Deleted([was_there] * len(request.keys), revision)


def names_of(request: Delete) -> str:
    return "".join(key[0] for key, _ in request.keys)


def test_keys_go_in_groups_one_group_at_a_time() -> None:
    """What gathers meanwhile goes with the answer, and then nothing is due: the driver is called only for the first."""
    core = core_of()
    deletions = core.deletions
    released(core, *(f"{number:03}" for number in range(MOST + 1)))
    (first,) = commands_of(core, Delete, 0.0)
    mine = deletions.take([leaving(core, "mine")])  # by its caller, beside the group
    assert [key for key, _ in mine.keys] == ["mine/a-1", "100/a-1"]
    deletions.answered(mine, there(mine), 0.5)
    core.outbox.is_early = False
    released(core, "late", may_wait=True)
    assert (deletions.poll(9.0), core.outbox.is_early, core.outbox.commands) == (math.inf, False, [])
    released(core, "later")
    deletions.answered(first, there(first, revision=999), 1.0)
    assert (len(first.keys), core.outbox.is_early, core.revisions.highest) == (MOST, True, 999)
    (second,) = commands_of(core, Delete, 1.0)
    assert [key for key, _ in second.keys] == ["late/a-1", "later/a-1"]
    core.outbox.is_early = False
    deletions.answered(second, there(second, revision=999), 2.0)
    assert (deletions.poll(9.0), core.outbox.is_early, core.tickets) == (math.inf, False, {})


def test_a_key_that_blocks_nobody_waits_a_moment_for_others() -> None:
    """Another one is not due later by it; a deletion that is sent now, and an answer, take it along."""
    core = core_of()
    deletions = core.deletions
    released(core, "a", may_wait=True)
    due = deletions.poll(0.0)
    assert (0.0 < due < 0.1, core.outbox.is_early, core.outbox.commands) == (True, True, [])
    core.outbox.is_early = False
    released(core, "b", may_wait=True)
    assert (deletions.poll(0.0), core.outbox.is_early) == (due, False)
    mine = deletions.take([leaving(core, "c")])
    assert (names_of(mine), deletions.poll(9.0)) == ("cab", math.inf)
    released(core, "d", may_wait=True)
    deletions.answered(mine, there(mine), 0.0)
    assert names_of(*commands_of(core, Delete, 0.0)) == "d"


def test_a_group_that_fails_is_sent_again_later_each_time_until_one_is_answered() -> None:
    """And all that gathers with it; no stray, and no key whose ticket another deletion has released."""
    core = core_of()
    deletions = core.deletions
    deletions.gather(("stray", 4), None, 0.0)
    released(core, "a")
    (group,) = commands_of(core, Delete, 0.0)
    for due in (1.05, 1.1):
        core.outbox.is_early = False
        deletions.failed(group, AWAY, 1.0)
        assert (deletions.poll(1.0), core.outbox.is_early) == (due, True)
        (group,) = commands_of(core, Delete, 2.0)
    assert names_of(group) == "a"
    deletions.is_reported = True
    deletions.answered(group, there(group), 1.0)
    assert not deletions.is_reported
    (ticket,) = released(core, "c")
    (group,) = commands_of(core, Delete, 1.0)
    deletions.failed(group, AWAY, 1.0)
    assert deletions.poll(1.0) == 1.05
    (group,) = commands_of(core, Delete, 2.0)
    core.endings.gone(ticket, was_there=True)
    deletions.failed(group, AWAY, 2.0)
    assert deletions.poll(9.0) == math.inf
    core.outbox.is_early = False
    deletions.gather(("a", 4), None, 9.5)
    assert core.outbox.is_early
    deletions.gather(("b", 4), None, 9.0)
    assert names_of(*commands_of(core, Delete, 9.0)) == "ab"


def test_keys_that_etcd_refuses_together_go_one_by_one() -> None:
    """At once; and the one that is refused alone is tried again after a pause, beside the others."""
    core = core_of()
    deletions = core.deletions
    released(core, "a", "b")
    (both,) = commands_of(core, Delete, 0.0)
    deletions.failed(both, DENIED, 1.0)
    (alone,) = commands_of(core, Delete, 1.0)
    deletions.failed(alone, DENIED, 1.0)
    assert (names_of(alone), deletions.poll(1.0)) == ("a", 1.05)
    assert names_of(deletions.take([leaving(core, "c")])) == "c"
    assert names_of(*commands_of(core, Delete, 2.0)) == "b"


@pytest.mark.parametrize("in_doubt", [False, True])
@pytest.mark.parametrize("was_there", [False, True])
@pytest.mark.parametrize("is_unattended", [False, True])
def test_a_key_that_was_gone_counts_as_deleted_by_us_if_a_deletion_was_not_answered(
    in_doubt: bool, was_there: bool, is_unattended: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """An endpoint that did not answer may have done it; else a hold was lost, and is logged if nobody waits for it."""
    logging.disable(logging.NOTSET)
    core = core_of()
    (ticket,) = released(core, "a")
    ticket.is_unattended = is_unattended
    core.deletions.gather(("stray", 4), None, 0.0)
    (request,) = commands_of(core, Delete, 0.0)
    core.unanswered(ListLease({ticket.key: ticket}))  # which leaves no doubt
    if in_doubt:
        core.unanswered(request)
    core.answered(request, there(request, was_there), 0.0)
    assert (ticket.stage, ticket.was_there) == (Stage.RELEASED, was_there or in_doubt)
    assert ["lost unnoticed" in text for text in caplog.messages] == [True] * (is_unattended and not ticket.was_there)
