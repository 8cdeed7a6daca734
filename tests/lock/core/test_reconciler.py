"""The keys of the lease against the tickets: when they are compared, what is read, and what follows from it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

import pytest

from lock.core.admission import EXCLUSIVE
from lock.core.core import Core
from lock.core.messages import Delete, Found, LeaseKeys, ListLease, ReadKeys, Renew
from lock.core.queue import Stage
from lock.errors import LockLost
from tests.lock.core.tickets import AWAY, DENIED, TTL_S, commands_of, core_of, key, written

PERIOD_S, IDLE_S, HURRY_S = 2.0, 60.0, 0.25
STRAY = "m/a-9"  # as this session names its keys


def compare(core: Core, now: float, *keys: str, ttl: int = TTL_S) -> list[ReadKeys]:
    """The reads that a look at the lease's list orders."""
    (request,) = commands_of(core, ListLease, now)
    core.answered(request, LeaseKeys(ttl, keys), now)
    return [command for command in core.outbox.commands if isinstance(command, ReadKeys)]


def test_an_idle_session_looks_once_a_minute() -> None:
    """Without a key, and without one in doubt; with a key as often as ever, and the worker is woken for that."""
    core = Core(1, TTL_S, 0.0, owner="s")
    compare(core, PERIOD_S)
    assert core.reconciler.poll(PERIOD_S) == PERIOD_S + IDLE_S
    core.outbox.is_early = False
    ticket = core.begin("m/", "", EXCLUSIVE, 5.0)
    assert (core.outbox.is_early, core.reconciler.poll(5.0)) == (True, 7.0)
    ticket.in_doubt = True
    core.endings.drop(ticket)
    compare(core, 7.0)
    assert core.reconciler.poll(7.0) == 9.0


@pytest.mark.parametrize(
    ("does", "lists", "again"),
    [
        (lambda core: None, 0, 0),
        (lambda core: core.reconciler.hurry(PERIOD_S), 1, 0),
        (lambda core: setattr(core._key_names, "burnt", 1), 1, 1),
        (lambda core: core.begin("n/", "", EXCLUSIVE, PERIOD_S), 1, 1),
        (lambda core: core.predecessors.take(*core.tickets.values(), key("m/mine", 1), 1, 0.0), 1, 1),
    ],
    ids=["nothing else", "in doubt", "a key in doubt", "another ticket", "behind a key of this lease"],
)
def test_tickets_that_wait_by_their_predecessor_are_not_listed(
    does: Callable[[Core], object], lists: int, again: int
) -> None:
    """They read their keys themselves; a doubt is looked into once, and the next look comes as soon as ever."""
    core = core_of()
    ticket = core.begin("m/", "", EXCLUSIVE, 0.0)
    core.predecessors.take(ticket, key("m/b-1", 1, 0xB), 1, 0.0)
    does(core)
    found = commands_of(core, ListLease, PERIOD_S)
    assert len(found) == lists
    for request in found:
        core.answered(request, LeaseKeys(TTL_S, [ticket.key]), PERIOD_S)
    assert core.reconciler.poll(PERIOD_S) == 2 * PERIOD_S
    assert len(commands_of(core, ListLease, 2 * PERIOD_S)) == again


def test_a_ticket_is_read_that_is_in_doubt_or_was_known_before_a_restore() -> None:
    """Though its key is listed."""
    core = core_of()
    ticket = written(core, "m/")
    core.restored(0.0)
    (read,) = compare(core, PERIOD_S, ticket.key)
    core.answered(read, Found({ticket.key: key(ticket.key, 2)}, 9), PERIOD_S)
    assert compare(core, 2 * PERIOD_S, ticket.key) == []
    ticket.in_doubt = True
    assert len(compare(core, 3 * PERIOD_S, ticket.key)) == 1


@pytest.mark.parametrize("stage", [Stage.HELD, Stage.QUEUED])
@pytest.mark.parametrize(
    ("created", "is_lost"), [pytest.param(2, False, id="its own"), pytest.param(5, True, id="another"), (None, True)]
)
def test_a_ticket_is_lost_where_a_read_shows_no_key_or_another_one(
    stage: Stage, created: int | None, is_lost: bool
) -> None:
    """Nothing else tells so; an answer may come twice, and a restore is seen by it."""
    core = core_of()
    ticket = written(core, "m/", number=1 if stage is Stage.HELD else None)
    (request,) = compare(core, PERIOD_S)
    core.revisions.highest = 7
    kvs = {} if created is None else {ticket.key: key(ticket.key, created)}
    for _ in range(2):
        core.answered(request, Found(kvs, 2), PERIOD_S)
        assert (type(ticket.failure) is LockLost, core.revisions.highest) == (is_lost, 7)
        ticket.failure = ticket.failure if is_lost else None
    (request,) = compare(core, 2 * PERIOD_S, STRAY)
    assert request.known == 7
    core.answered(request, Found({}, 6), 2 * PERIOD_S)
    assert core.revisions.highest == 6


def test_keys_of_this_session_that_have_no_ticket_are_deleted(caplog: pytest.LogCaptureFixture) -> None:
    """None that had one when the list was asked for, or has one by now; none of another name or another lease."""
    logging.disable(logging.NOTSET)
    core = core_of()
    early = written(core, "early/")
    (request,) = commands_of(core, ListLease, PERIOD_S)
    late = written(core, "late/")
    early.stage = Stage.RELEASING
    core.endings.gone(early, was_there=True)
    keys = [early.key, late.key, STRAY, "n/read/a-2", "gone/a-1", "other/a-3", "new/a-1", "m/a-1x", "m/b-1", "m"]
    core.answered(request, LeaseKeys(TTL_S, keys), PERIOD_S)
    (read,) = commands_of(core, ReadKeys)
    assert dict(read.tickets) == dict.fromkeys(["gone/a-1", STRAY, "n/read/a-2", "new/a-1", "other/a-3"])
    assert written(core, "new/").key == "new/a-1"
    kvs = {name: key(name, 5, 0xB if name == "other/a-3" else 0xA) for name in read.tickets if name != "gone/a-1"}
    core.answered(read, Found(kvs, 9), PERIOD_S)
    (deletion,) = commands_of(core, Delete, PERIOD_S)
    assert (deletion.keys, deletion.tickets) == (((STRAY, 5), ("n/read/a-2", 5)), (None, None))


@pytest.mark.parametrize(("count", "steps"), [(100, [100]), (201, [100, 100, 1])])
def test_many_keys_are_read_in_several_steps(count: int, steps: list[int]) -> None:
    """The look is over when the last one was answered, or has failed."""
    core = core_of()
    requests = compare(core, PERIOD_S, *(f"m/a-{number:x}" for number in range(count)))
    assert [len(each.tickets) for each in requests] == steps
    core.outbox.commands.clear()
    for request in requests:
        assert core.reconciler.poll(9.0) == math.inf
        if request is requests[0]:
            core.failed(request, AWAY, PERIOD_S)
        else:
            core.answered(request, Found({}, 9), PERIOD_S)
    core.reconciler.poll(9.0)
    assert len(commands_of(core, ListLease)) == 1


def test_a_list_that_fails_is_asked_for_at_the_next_look(caplog: pytest.LogCaptureFixture) -> None:
    """Where etcd denies it, that is logged."""
    logging.disable(logging.NOTSET)
    core = core_of()
    written(core, "m/")
    (request,) = commands_of(core, ListLease, PERIOD_S)
    core.failed(request, AWAY, PERIOD_S)
    assert (core.reconciler.poll(PERIOD_S), caplog.messages) == (2 * PERIOD_S, [])
    (request,) = commands_of(core, ListLease, 2 * PERIOD_S)
    core.failed(request, DENIED, 2 * PERIOD_S)
    assert (core.reconciler.poll(2 * PERIOD_S), caplog.messages) == (
        3 * PERIOD_S, ["the keys of lease a were not compared: no right"],
    )  # fmt: skip


def test_a_lease_that_etcd_does_not_know_is_renewed_and_no_key_is_lost() -> None:
    """The renewal tells; 0 seconds are a lease that is there."""
    core = core_of()
    written(core, "m/")
    assert (compare(core, PERIOD_S, ttl=-1), commands_of(core, Renew)) == ([], [Renew()])
    assert (len(compare(core, 2 * PERIOD_S, ttl=0)), commands_of(core, Renew)) == (1, [])


def test_what_nobody_waits_for_any_more_is_left_at_the_next_look() -> None:
    """Where an interrupt came before it could say so; a ticket without a waiter is held by its owner."""
    core = core_of()
    abandoned, waited_for, held = (written(core, f"{name}/") for name in "abc")
    abandoned.waiter, waited_for.waiter = lambda: None, lambda: core
    (deletion,) = commands_of(core, Delete, PERIOD_S) or commands_of(core, Delete, PERIOD_S)
    assert deletion.tickets == (abandoned,)
    assert (waited_for.stage, held.stage) == (Stage.HELD, Stage.HELD)
