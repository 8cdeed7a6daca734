"""What makes a ticket a hold, and to whom a hold goes that ends."""

from __future__ import annotations

import pytest

from lock.core.acquisition import Sleep
from lock.core.messages import Delete, Written
from lock.core.queue import Stage, Ticket
from lock.errors import AdmissionConflict, LockLost
from lock.model import Event, KeyValue
from tests.lock.core.sessions import Session, request_of
from tests.lock.core.small_world import Want
from tests.lock.core.tickets import commands_of
from tests.lock.core.worlds import LOCK, PERMIT, READ, THREE, WRITE

Sessions = tuple[Session, Session]
Wants = list[tuple[int, Want]]  # each with the number of its session
GO = Want(("rw/",))


@pytest.mark.parametrize(
    ("ahead", "want", "outcome"),
    [
        ([LOCK], LOCK, "waits"), ([READ], READ, "holds"), ([READ, WRITE], READ, "waits"), ([READ], WRITE, "waits"),
        ([GO], READ, "waits"), ([PERMIT], PERMIT, "holds"), ([PERMIT, PERMIT], PERMIT, "waits"),
        ([PERMIT], THREE, "limit of 2, not 3"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("tries", [False, True])
def test_the_list_of_a_write_says_who_holds(
    sessions: Sessions, ahead: list[Want], want: Want, outcome: str, tries: bool
) -> None:
    """Where others may hold together: at once, in one request; who waits follows the queue; a try leaves nothing."""
    other, session = sessions
    for each in ahead:
        other.go(other.acquisition(each))
    acquisition, revision = session.acquisition(want, tries=tries), other.etcd.revision
    if "limit" in outcome:
        with pytest.raises(AdmissionConflict, match=outcome):
            session.go(acquisition)
    else:
        assert isinstance(session.go(acquisition), Sleep) is (outcome == "waits" and not tries)
    assert acquisition.is_held is (outcome == "holds")
    assert other.etcd.revision - revision == (outcome == "holds" or not tries)  # writes
    assert (acquisition.ticket.queue.view is not None) is (outcome == "waits" and not tries)
    session.work(0.0)
    assert len(other.etcd.keys) == len(ahead) + (outcome == "holds" or (outcome == "waits" and not tries))


def test_a_wait_whose_key_is_gone_before_its_answer_is_lost(sessions: Sessions) -> None:
    """The watch has told of it and of its end."""
    holder, other = sessions
    holder.go(holder.acquisition())
    other.go(other.acquisition())
    other.work(0.0)
    acquisition = other.acquisition()
    answer = other.etcd.create_key(request_of(acquisition))
    assert answer.kv is not None
    other.etcd.remove([acquisition.ticket.key])
    gone = KeyValue(acquisition.ticket.key, b"", 0, other.etcd.revision, 0)
    other.core.following.handle_event("m/", [Event(False, answer.kv), Event(True, gone)], 0.0)
    assert acquisition.ticket.stage is Stage.WRITING
    other.core.written(acquisition.ticket, answer, 0.0)
    assert type(acquisition.ticket.failure) is LockLost


@pytest.mark.parametrize(
    ("created", "token", "stage"),
    [
        pytest.param(None, 5, Stage.WRITING, id="known before"),
        pytest.param(None, 6, Stage.HELD, id="told by the watch"),
        pytest.param(6, 6, Stage.HELD, id="its own"),
        pytest.param(6, 7, Stage.QUEUED, id="written since by another hand"),
    ],
)
def test_a_ticket_holds_by_its_own_key_alone(sessions: Sessions, created: int | None, token: int, stage: Stage) -> None:
    """A key of its name that is older than the ticket, or not the one that it has written, is another one."""
    session, _ = sessions
    session.core.revisions.highest = 5
    ticket = session.acquisition().ticket
    if created is not None:
        session.core.written(ticket, Written(KeyValue(ticket.key, b"", 6, 6, 1), 2, None, 6), 0.0)
    session.core.outbox.changes.clear()
    session.core.grants.grant(ticket, token)
    assert ticket.stage is stage
    assert session.core.outbox.changes == ([ticket] if stage is Stage.HELD else [])
    if stage is Stage.HELD:
        assert (ticket.created, ticket.granted_at) == (6, session.core.revisions.highest)
        session.core.outbox.changes.clear()
        session.core.grants.grant(ticket, token)
        assert session.core.outbox.changes == []


@pytest.mark.parametrize("is_fence", [False, True])
def test_a_wait_that_is_over_hands_a_hold_over_unless_it_is_a_fence(sessions: Sessions, is_fence: bool) -> None:
    """Then the next one holds when its key is gone, as the watch tells."""
    session, _ = sessions
    held, waiting = session.acquisition(), session.acquisition()
    session.go(held)
    session.go(waiting)
    session.work(0.0)
    if is_fence:
        session.core.fence(held.ticket, 0.0)
    session.core.endings.leave(held.ticket, 0.0)
    assert (waiting.ticket.stage is Stage.HELD) is not is_fence


@pytest.mark.parametrize(
    ("before", "hold", "behind", "granted", "waits"),
    [
        pytest.param([], LOCK, [(1, LOCK)], 1, False, id="to the next of this session"),
        pytest.param([], LOCK, [(2, LOCK), (1, LOCK)], 0, True, id="not past one of another"),
        pytest.param([], LOCK, [], 0, True, id="to nobody"),
        pytest.param([], WRITE, [(1, READ), (1, READ)], 2, False, id="to all that may hold together"),
        pytest.param([], WRITE, [(1, READ), (2, READ)], 1, True, id="to both sessions: another one waits for it"),
        pytest.param([(1, READ)], READ, [(1, WRITE)], 0, True, id="not while another holds"),
        pytest.param([], WRITE, [(2, GO), (1, READ)], 0, True, id="by the rule of the next alone"),
    ],
)
def test_a_hold_is_handed_over_before_its_key_is_deleted(
    sessions: Sessions, before: Wants, hold: Want, behind: Wants, granted: int, waits: bool
) -> None:
    """Where the view shows who comes next; its deletion is waited for only where another session may be next."""
    session, _ = sessions

    def queue_up(wants: Wants) -> list[Ticket]:
        acquisitions = [(sessions[number - 1], sessions[number - 1].acquisition(want)) for number, want in wants]
        for owner, each in acquisitions:
            owner.go(each)
        return [each.ticket for owner, each in acquisitions if owner is session]

    queue_up(before)
    held = session.acquisition(hold)
    session.go(held)
    waiting = queue_up(behind)
    session.core.contended(held.ticket, 0.0)
    session.work(0.0)
    is_to_send = session.core.release(held.ticket, 0.0)
    assert [ticket.stage for ticket in waiting].count(Stage.HELD) == granted
    assert is_to_send is waits
    assert held.ticket.is_unattended is not waits
    assert not commands_of(session.core, Delete, 0.0)
    if not waits:
        assert session.core.poll(0.0) == 0.005  # in company
