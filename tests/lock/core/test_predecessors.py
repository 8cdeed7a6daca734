"""Waits by the predecessor: what is watched, when it is read, and what a read grants."""

from __future__ import annotations

from typing import Any

import pytest

from lock.core.core import Core
from lock.core.messages import FindPosition, Follow, FollowKey, PositionFound, Unfollow, Written
from lock.core.queue import Position, Queue, Stage, Ticket
from lock.errors import EtcdDenied, LockLost
from lock.model import Event, KeyValue
from tests.lock.core.sessions import Session
from tests.lock.core.small_world import Want
from tests.lock.core.tickets import AWAY, DENIED, core_of, deleted, key
from tests.lock.core.worlds import READ

Sessions = tuple[Session, Session]
FIRST, SECOND = key("m/b-1", 5, 0xB), key("m/c-1", 6, 0xC)


def waits(core: Core, before: KeyValue | None = SECOND, prefix: str = "m/") -> Ticket:
    """A ticket whose key was created at revision 10, behind this one."""
    ticket = core.begin(prefix, "", Want().terms.rule, 0.0)
    assert core.creation(ticket, b"", if_free=False, finds_position=True).finds_position
    answer = Written(key(ticket.key, 10), 3, None, 10, before=before)
    core.written(ticket, answer, 0.0)
    core.wait(ticket, answer, 0.0, finds_position=True)
    return ticket


def place_of(core: Core) -> Position:
    (position,) = core.predecessors.current()
    return position


def asked(core: Core, now: float = 0.0) -> list[FindPosition]:
    """The reads that are due, as the acquisitions ask for them; all commands are taken."""
    core.outbox.commands.clear()
    due = [position for position in core.predecessors.current() if now >= position.due]
    return [core.predecessors.read(position, now) for position in due]


def answer(core: Core, before: KeyValue | None, *, own: int | None = 10, revision: int = 20, now: float = 0.0) -> None:
    """The read that is due is answered."""
    (request,) = asked(core, now)
    kv = None if own is None else key(request.position.ticket.key, own)
    core.predecessors.answered(request, PositionFound(kv, before, revision), now)


def test_a_predecessor_that_leaves_in_the_middle_is_replaced() -> None:
    """The one before it is watched; what is told of the first one later is no news; so is its watch's end."""
    core = core_of()
    ticket = waits(core)
    first = place_of(core)
    core.predecessors.handle_event(first, [Event(False, SECOND)], 0.0)  # which stays
    assert asked(core) == []
    core.predecessors.handle_event(first, [deleted("m/c-1", 21)], 0.0)
    assert core.outbox.changes[-1] is ticket
    (request,) = asked(core)
    core.predecessors.answered(request, PositionFound(key(ticket.key, 10), FIRST, 21), 0.0)
    position = place_of(core)
    assert core.outbox.commands == [FollowKey("m/", "m/b-1", position, 21)]  # instead of the first
    core.predecessors.handle_event(first, DENIED, 0.0)
    core.predecessors.failed(request, DENIED, 0.0)
    assert (ticket.stage, place_of(core), core.revisions.highest) == (Stage.QUEUED, position, 21)


@pytest.mark.parametrize("own", [None, 15])
@pytest.mark.parametrize("before", [None, SECOND])
def test_a_ticket_whose_key_is_gone_or_another_one_does_not_hold(own: int | None, before: KeyValue | None) -> None:
    """Whoever stands before it."""
    core = core_of()
    ticket = waits(core)
    core.predecessors.handle_event(place_of(core), [deleted("m/c-1", 21)], 0.0)
    answer(core, before, own=own)
    assert type(ticket.failure) is LockLost


def test_it_is_read_now_and_then_and_sooner_after_a_failure() -> None:
    """A watch may keep a deletion to itself. Pauses grow, and begin anew after an answer."""
    core = core_of()
    ticket = waits(core)
    position, now = place_of(core), Queue.audit_s
    assert position.due == now
    (request,) = asked(core, now)
    for pause in (0.05, 0.1):
        core.predecessors.failed(request, AWAY, now)
        assert (position.due, ticket.queue.trouble) == (now + pause, "away")
        now += pause
        (request,) = asked(core, now)
    core.predecessors.answered(request, PositionFound(key(ticket.key, 10), SECOND, 20), now)
    assert (position.due, ticket.queue.trouble) == (now + Queue.audit_s, None)
    (request,) = asked(core, now + Queue.audit_s)
    core.predecessors.handle_event(position, [], 0.0)
    core.predecessors.failed(request, AWAY, 0.0)
    assert position.due == 0.0  # what was told meanwhile does not wait
    core.predecessors.take(ticket, None, 0, 3.0)
    assert place_of(core).due == 3.0
    core.reconciler.hurry(0.0)
    core.poll(0.25)  # it waits, though it is not known behind whom


@pytest.mark.parametrize("is_watch", [False, True])
def test_where_etcd_denies_nothing_can_wait(is_watch: bool) -> None:
    """Neither behind a watch that is refused nor where no read is allowed; a watch that breaks is only a doubt."""
    core = core_of()
    ticket = waits(core)
    position = place_of(core)
    core.predecessors.handle_event(position, AWAY, 0.0)
    assert (ticket.stage, ticket.queue.trouble) == (Stage.QUEUED, "away")
    core.predecessors.handle_event(position, [], 0.0)
    (request,) = asked(core)
    if is_watch:
        core.predecessors.handle_event(position, DENIED, 0.0)
    else:
        core.predecessors.failed(request, DENIED, 0.0)
    assert (type(ticket.failure), str(ticket.failure)) == (EtcdDenied, "no right")


def test_after_a_restore_the_place_is_read_anew() -> None:
    """A lower revision tells of it; what was read before grants nothing."""
    core = core_of()
    ticket = waits(core)
    core.revisions.highest = 50
    core.predecessors.handle_event(place_of(core), [], 0.0)
    (late,) = asked(core)
    core.outbox.changes.clear()
    core.predecessors.answered(late, PositionFound(key(ticket.key, 10), None, 9), 0.0)
    assert core.outbox.changes == [ticket]  # whose driver reads
    assert (ticket.stage, core.revisions.highest, place_of(core).before) == (Stage.QUEUED, 9, None)
    core.predecessors.handle_event(place_of(core), [deleted("m/c-1", 9)], 0.0)
    answer(core, None, revision=11)
    assert ticket.stage is Stage.HELD


def test_where_a_second_ticket_waits_the_queue_is_followed() -> None:
    """Instead of the key; a read that is on its way counts no more."""
    core = core_of()
    ticket = waits(core)
    core.predecessors.handle_event(place_of(core), [], 0.0)
    (request,) = asked(core)
    second = core.begin("m/", "", ticket.rule, 0.0)
    assert not core.creation(second, b"", if_free=False, finds_position=True).finds_position
    answer = Written(key(second.key, 11), 4, None, 11, before=ticket.queue.holder())
    core.written(second, answer, 0.0)
    core.wait(second, answer, 0.0, finds_position=True)
    assert core.outbox.commands == [Follow("m/")]
    core.predecessors.answered(request, PositionFound(key(ticket.key, 10), None, 20), 0.0)
    assert ticket.stage is Stage.QUEUED
    assert core.predecessors.current() == []


def test_who_is_not_the_only_one_follows_the_queue(sessions: Sessions) -> None:
    """A wait beside another ticket of its session, of another rule, of a cohort, or where it is followed already."""
    holder, other = sessions
    holder.go(holder.acquisition())
    holder.etcd.put("rw/0-go", b"", 0)

    def follows(session: Session, want: Want | None = None, **options: Any) -> bool:
        acquisition = session.acquisition(want, **{"follows": False, **options})
        session.go(acquisition)
        is_placed = acquisition.ticket.queue.position_of(acquisition.ticket) is not None
        session.core.endings.leave(acquisition.ticket, 0.0)
        assert acquisition.ticket.queue.position_of(acquisition.ticket) is None
        return not is_placed

    assert follows(holder)  # behind a hold of its session
    assert follows(other, READ)
    assert not follows(other)
    assert not follows(other)  # beside one whose key is being deleted
    assert follows(other, follows=True)
    assert follows(other)


def test_the_end_of_another_ticket_does_not_end_a_place() -> None:
    """Of the same queue; nor does one of another name."""
    core = core_of()
    ticket = waits(core)
    other, below = (core.begin(prefix, "", ticket.rule, 0.0) for prefix in ("m/", "m/b/"))
    for each in (other, below):
        core.endings.leave(each, 0.0)
    assert place_of(core).ticket is ticket


def test_a_session_that_is_over_watches_no_key() -> None:
    """Of any queue."""
    core = core_of()
    for prefix in ("m/", "n/"):
        waits(core, SECOND, prefix)
    core.outbox.commands.clear()
    core.lose("is gone")
    assert core.outbox.commands == [Unfollow("m/"), Unfollow("n/")]
