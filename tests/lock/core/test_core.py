"""The core, told one fact after the other: what each method accepts, and what it does in all other stages."""

from __future__ import annotations

import math

import pytest

from lock.core.core import Core
from lock.core.messages import Create, Delete, Follow, LeaseKeys, ListLease, ReadKeys, Renew, Unfollow, Written
from lock.core.queue import OVER, Observer, Stage, Ticket
from lock.errors import LockCancelled, LockLost, NotHeld, SessionLost
from lock.model import Event
from tests.lock.core.sessions import Session
from tests.lock.core.small_world import TTL_S
from tests.lock.core.tickets import commands_of, key
from tests.lock.core.worlds import READ

Sessions = tuple[Session, Session]
STAGES = list(Stage)


@pytest.fixture
def core(sessions: Sessions) -> Core:
    return sessions[0].core


def ticket_at(session: Session, stage: Stage, *, in_doubt: bool = False) -> Ticket:
    """A ticket of `m/` that has come so far; RELEASED: its key was deleted."""
    core = session.core
    acquisition = session.acquisition()
    ticket = acquisition.ticket
    if stage is Stage.WRITING:
        core.creation(ticket, b"", if_free=False)
    elif stage is Stage.QUEUED:
        session.etcd.put("m/0", b"", 0)
        session.go(acquisition)
    else:
        session.go(acquisition)
    if stage is Stage.RELEASING:
        core.endings.leave(ticket, 0.0)
    if stage is Stage.RELEASED:
        assert core.release(ticket, 0.0)
        deletion = core.deletions.take([ticket])
        core.deletions.answered(deletion, session.etcd.delete_keys(deletion), 0.0)
    assert ticket.stage is stage
    ticket.waiter = None
    ticket.in_doubt = in_doubt
    core.outbox.changes.clear()
    core.outbox.commands.clear()
    core.outbox.is_early = False
    return ticket


def test_a_lease_is_ours_for_its_time_after_the_sending_of_a_renewal(core: Core) -> None:
    """Renewals are told in any order; none counts from the deadline on."""
    core.renewed(3.0, TTL_S, 5.0)
    core.renewed(1.0, TTL_S, 6.0)
    assert core.deadline == 13.0
    core.renewed(12.0, TTL_S, 13.0)
    assert core.remaining(12.0) == 1.0
    with pytest.raises(SessionLost, match="could not be kept alive for 10 s"):
        core.ensure(13.0)
    assert core.remaining(5.0) == 0.0


@pytest.mark.parametrize("stage", STAGES)
def test_the_end_of_the_lease_ends_all(sessions: Sessions, stage: Stage) -> None:
    """On its very second; whoever acquires, holds, waits or observes is told, and what is answered then is nothing."""
    session, _ = sessions
    core, ticket = session.core, ticket_at(session, stage)
    core.observers[Observer()] = None
    core.following.join(core.begin("n/", "", READ.terms.rule, 0.0).queue, 0.0)
    listings = commands_of(core, ListLease, 2.0)
    assert core.poll(float(TTL_S)) == math.inf
    assert not core.lose("is gone again")
    assert (ticket.stage, ticket in core.outbox.changes) == (Stage.RELEASED, stage is not Stage.RELEASED)
    assert (type(ticket.failure) is SessionLost) is (stage not in OVER)  # what was released is not lost
    assert not core.observers
    assert not core.queues
    assert not core.following.followed
    assert Unfollow("n/") in core.outbox.commands
    core.outbox.changes.clear()
    core.outbox.commands.clear()
    core.answered(listings[0], LeaseKeys(-1, []), 11.0)
    core.written(ticket, Written(key(ticket.key, 9, 1), 1, None, 9, was_there=True), 11.0)
    assert not core.outbox.changes
    assert not core.outbox.commands


@pytest.mark.parametrize(
    ("known", "options", "counts"),
    [
        pytest.param("m/0", {}, False, id="others are in its way, and the watch will tell"),
        pytest.param("m/0", {"if_free": True}, True, id="a try"),
        pytest.param("m/0", {"lists": True}, True, id="its list is wanted"),
        pytest.param("", {}, True, id="the queue is free"),
        pytest.param("m/0", {"break": True}, True, id="the view is not listed"),
        pytest.param(None, {}, True, id="the queue is not followed"),
    ],
)
def test_a_write_counts_the_queue_where_no_watch_tells_the_turn(
    sessions: Sessions, known: str | None, options: dict[str, bool], counts: bool
) -> None:
    """What stands before its key."""
    session, _ = sessions
    if known:
        session.etcd.put(known, b"", 0)
    acquisition = session.acquisition()
    ticket = acquisition.ticket
    if known is not None:
        session.core.following.join(ticket.queue, 0.0)
        session.work(0.0)
    if "break" in options:
        ticket.queue.broken()
    options = {each: options.get(each, False) for each in ("if_free", "lists")}
    request = session.core.creation(ticket, b"v", **options)
    assert ticket.is_writing
    assert request == Create(ticket.key, b"v", 1, "m/" if counts else "", **options)


@pytest.mark.parametrize(
    ("what", "in_doubt", "waiting", "left"),
    [
        ("not free", False, Stage.RELEASED, Stage.RELEASED), ("not free", True, Stage.RELEASING, Stage.RELEASING),
        ("failed", False, Stage.WRITING, Stage.RELEASED), ("failed", True, Stage.WRITING, Stage.RELEASING),
        ("written", False, Stage.HELD, Stage.RELEASING), ("another's", False, Stage.RELEASED, Stage.RELEASED),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_left", [False, True])
def test_a_write_is_answered_while_its_ticket_waits_or_when_that_is_over(
    sessions: Sessions, what: str, in_doubt: bool, waiting: Stage, left: Stage, is_left: bool
) -> None:
    """Then what was or may have been written is deleted; a doubt is looked into."""
    session, _ = sessions
    core, ticket = session.core, ticket_at(session, Stage.WRITING, in_doubt=in_doubt)
    if is_left:
        core.endings.leave(ticket, 0.0)
    if what == "failed":
        core.unwritten(ticket, 0.0)
    else:
        kv = None if what == "not free" else key(ticket.key, 5, 1)
        core.written(ticket, Written(kv, 1, None, 5, was_there=what == "another's"), 0.0)
    stage = left if is_left else waiting
    assert (ticket.stage, ticket.is_writing) == (stage, False)
    deletion = (ticket.key, 5 if what == "written" else None)
    assert [each.keys for each in commands_of(core, Delete, 0.0)] == ([(deletion,)] if stage is Stage.RELEASING else [])
    is_doubt = what == "another's" or (what == "failed" and in_doubt)
    assert bool(commands_of(core, ListLease, 0.25)) is is_doubt


@pytest.mark.parametrize(
    ("in_doubt", "was_there", "created", "lease_id", "revision", "floor", "stage"),
    [
        pytest.param(False, True, 10, 1, 10, 9, Stage.RELEASED, id="of a first write, which has not written it"),
        pytest.param(True, True, 10, 1, 10, 9, Stage.HELD, id="of a write in doubt"),
        pytest.param(True, True, 9, 1, 10, 9, Stage.RELEASED, id="known before"),
        pytest.param(True, True, 5, 1, 6, 0, Stage.RELEASED, id="a restore is told"),
        pytest.param(True, True, 10, 0, 10, 9, Stage.RELEASED, id="without our lease"),
        pytest.param(False, False, 9, 1, 9, 0, Stage.HELD, id="new at a known revision, in another history"),
        pytest.param(False, True, 9, 1, 9, 9, Stage.RELEASED, id="there at a known revision"),
        pytest.param(False, False, None, 1, 9, 9, Stage.RELEASED, id="not written"),
    ],
)
def test_a_key_that_was_there_is_ours_by_a_write_in_doubt_alone(
    sessions: Sessions, in_doubt: bool, was_there: bool, created: int | None, lease_id: int, revision: int, floor: int,
    stage: Stage,
) -> None:  # fmt: skip
    """Another one of its name was in an etcd that was restored, or was put by hand; a new one tells of a restore."""
    session, _ = sessions
    session.core.revisions.highest = 9
    ticket = session.acquisition().ticket
    ticket.in_doubt = in_doubt
    kv = None if created is None else key(ticket.key, created, lease_id)
    session.core.written(ticket, Written(kv, 1, None, revision, was_there), 0.0)
    assert (ticket.floor, ticket.stage, session.core.revisions.highest) == (floor, stage, revision)
    assert ticket.is_lost is (stage is not Stage.HELD and kv is not None)
    assert ticket in session.core.outbox.changes


def test_a_second_write_of_a_key_that_the_watch_has_told_is_another_hold(sessions: Sessions) -> None:
    """The first key was deleted by hand: its loss is told, and both keys are deleted."""
    session, _ = sessions
    core, ticket = session.core, ticket_at(session, Stage.WRITING, in_doubt=True)
    core.grants.grant(ticket, 5)
    core.written(ticket, Written(key(ticket.key, 5, 1), 2, None, 5), 0.0)
    assert (ticket.stage, ticket.failure) == (Stage.HELD, None)
    core.written(ticket, Written(key(ticket.key, 7, 1), 1, None, 7), 0.0)
    assert type(ticket.failure) is LockLost
    (deletion,) = commands_of(core, Delete, 0.0)
    assert deletion.keys == ((ticket.key, 5), (ticket.key, 7))


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage is not Stage.HELD])
def test_a_fence_and_a_release_are_of_a_hold_alone(sessions: Sessions, stage: Stage) -> None:
    """In all other stages they raise why, and change nothing."""
    session, _ = sessions
    core, ticket = session.core, ticket_at(session, stage)
    assert not core.contended(ticket, 0.0)
    assert not core.outbox.commands
    for method in (core.fence, core.release):
        with pytest.raises(NotHeld, match="was given up before"):
            method(ticket, 0.0)
    assert (ticket.stage, ticket.is_fence) == (stage, False)


def test_who_waits_is_known_where_the_queue_is_listed(sessions: Sessions) -> None:
    """It is followed from the first question on, and for the rule of each ticket."""
    session, _ = sessions
    core, ticket = session.core, ticket_at(session, Stage.HELD)
    assert not core.contended(ticket, 0.0)
    assert core.outbox.commands == [Follow("m/")]
    session.work(0.0)
    other = core.begin("m/", "", READ.terms.rule, 0.0)
    core.following.handle_event("m/", [Event(False, key("m/other", 50, 1))], 1.0)
    assert core.contended(ticket, 1.0)
    assert ticket.queue.view is not None
    assert ticket.queue.view.has_waiters(other.rule)
    ticket.queue.broken()
    assert not core.contended(ticket, 1.0)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("what", ["leave", "cancel", "key_deleted"])
def test_what_ends_a_ticket_ends_it_once(sessions: Sessions, stage: Stage, what: str) -> None:
    """A wait or a hold by `leave` and a lost key; by `cancel` a wait alone."""
    session, _ = sessions
    core, ticket = session.core, ticket_at(session, stage)
    failure = LockCancelled("enough")
    core.endings.cancel(ticket, failure, 0.0) if what == "cancel" else getattr(core.endings, what)(ticket, 0.0)
    ends = stage not in OVER and (what != "cancel" or stage is not Stage.HELD)
    assert ticket.stage is (Stage.RELEASING if ends else stage)
    assert core.outbox.changes == ([ticket] if ends else [])
    assert (Renew() in core.outbox.commands) is (ends and what == "key_deleted")
    assert (type(ticket.failure) is LockLost) is (ends and what == "key_deleted")
    assert (ticket.failure is failure) is (ends and what == "cancel")
    assert ticket.is_lost is (ends and what == "key_deleted")
    if ticket.failure is not None:
        with pytest.raises(type(ticket.failure)):
            core.check(ticket, 0.0)


def test_a_lower_revision_than_was_known_tells_of_a_restore(sessions: Sessions) -> None:
    """Then nothing that is known counts, and tickets are read."""
    session, _ = sessions
    core, ticket = session.core, ticket_at(session, Stage.QUEUED)
    assert not core.revisions.observe(20, 5, 0.0)
    late = core.begin("m/", "", ticket.rule, 0.0)
    late.granted_at = 20
    assert core.revisions.observe(9, 10, 0.0)
    assert (core.revisions.highest, late.floor, late.granted_at) == (9, 0, 0)
    core.restored(0.0)  # as another cluster tells
    assert core.begin("m/", "", ticket.rule, 0.0).floor == 0
    (listing,) = commands_of(core, ListLease, 0.25)
    core.answered(listing, session.etcd.list_lease(1), 0.25)
    assert [list(each.tickets) for each in commands_of(core, ReadKeys, 0.25)] == [[ticket.key]]


def test_a_look_says_when_the_next_one_is_due(sessions: Sessions) -> None:
    """Of the lease's end, observers, queues that are followed, deletions and the lease's keys: whatever comes first."""
    session, _ = sessions
    core = session.core
    core.observers[Observer()] = None  # to which nothing is ever due
    assert core.poll(0.0) == 2.0  # the lease's keys
    ticket = ticket_at(session, Stage.HELD)
    core.contended(ticket, 0.0)
    session.work(0.0)
    assert core.poll(0.5) == 1.0
    core.outbox.commands.clear()
    assert core.poll(5.25) == 7.25  # no queue is followed any more


def test_the_first_refusal_stays(sessions: Sessions) -> None:
    """Waits are cancelled; nobody begins any more."""
    session, _ = sessions
    first = LockCancelled("closing")
    waiting, held = ticket_at(session, Stage.WRITING), ticket_at(session, Stage.HELD)
    session.core.refuse(first, 0.0)
    session.core.refuse(LockCancelled("once more"), 0.0)
    assert (waiting.failure, held.failure) == (first, None)
    with pytest.raises(LockCancelled, match="closing"):
        session.core.ensure_open(0.0)
    assert session.core.lose("is gone")
    assert (waiting.failure, type(held.failure)) == (first, SessionLost)
