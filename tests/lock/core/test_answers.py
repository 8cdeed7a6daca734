"""What the core says and does on single answers that no history needs: messages, refusals, losses told twice."""

from __future__ import annotations

import logging
import math

import pytest

from lock.core.acquisition import Sleep
from lock.core.messages import Delete, ListLease, Renew, TimeToLive, Unfollow, Written
from lock.core.queue import Stage
from lock.core.together import release_together
from lock.errors import (
    AdmissionConflict,
    EtcdDenied,
    EtcdUnavailable,
    LockCancelled,
    LockLost,
    LockTimeout,
    NotHeld,
    SessionLost,
)
from lock.model import Event, KeyValue
from tests.lock.core.sessions import Session, request_of
from tests.lock.core.small_world import TTL_S, Want
from tests.lock.core.worlds import PERMIT, THREE


def test_a_thread_that_waits_for_itself_is_told_where_it_acquired(sessions: tuple[Session, Session]) -> None:
    """Only its own hold of this name, and of a recipe that is exclusive, is one that it waits for."""
    session, _ = sessions
    first = session.acquisition(owner=7)
    first.ticket.where = "shop.py:12"
    assert session.acquisition(owner=7).waits_for_itself() is None  # it does not hold yet
    session.go(first)
    assert first.is_held
    assert first.waits_for_itself() is None
    assert session.acquisition(owner=7).waits_for_itself() == "shop.py:12"
    assert session.acquisition(owner=8).waits_for_itself() is None
    session.go(session.acquisition(PERMIT, owner=7))
    assert session.acquisition(PERMIT, owner=7).waits_for_itself() is None


def test_a_timeout_names_the_holder_and_what_its_lease_has_left(sessions: tuple[Session, Session]) -> None:
    """For a wait and for a try that explains, which leave no key behind."""
    holder, other = sessions
    holder.go(holder.acquisition())
    waits = other.acquisition(deadline=1.0)
    assert isinstance(other.go(waits), Sleep)
    other.work(0.0)
    with pytest.raises(LockTimeout, match=r"'m' not acquired within 1\.0 s; held by .*m/1-1.* with 10 s of its TTL"):
        other.go(waits, 1.0)
    tries = other.acquisition(deadline=0.0, tries=True, explains=True)
    with pytest.raises(LockTimeout, match=r"held by .*m/1-1"):
        other.go(tries)
    plain = other.acquisition(deadline=0.0, tries=True)
    assert other.go(plain) is None
    assert not plain.is_held
    other.work(1.0)
    assert list(holder.etcd.keys) == ["m/1-1"]
    assert not other.core.tickets


def test_a_wait_that_cannot_see_the_queue_does_not_name_itself(sessions: tuple[Session, Session]) -> None:
    """Its own key is first once the holder's is gone, and nothing has told so."""
    holder, other = sessions
    hold = holder.acquisition()
    holder.go(hold)
    waits = other.acquisition(deadline=1.0)
    other.go(waits)
    assert str(waits.timed_out(1.0, None)).endswith("holder unknown")
    other.work(0.0)
    assert waits.holder() is not None
    other.etcd.remove(["m/1-1"])
    assert other.core.queues["m/"].view is not None
    other.core.queues["m/"].view.discard("m/1-1", hold.ticket.created or 0)
    assert waits.holder() is None


@pytest.mark.parametrize("tries", [True, False])
def test_a_permit_of_another_limit_is_refused(sessions: tuple[Session, Session], tries: bool) -> None:
    """Whoever waits and whoever tries hears of the conflict, and leaves no key."""
    holder, other = sessions
    holder.go(holder.acquisition(PERMIT))
    refused = other.acquisition(THREE, tries=tries, deadline=0.0 if tries else math.inf)
    with pytest.raises(AdmissionConflict, match="limit of 2, not 3"):
        other.go(refused)
    other.work(0.0)
    assert list(other.etcd.keys) == ["s/1-1"]


def test_a_waiter_of_another_limit_is_refused_by_the_view(sessions: tuple[Session, Session]) -> None:
    """When those before it have left, and the first key is one of another limit."""
    holder, other = sessions
    first = holder.acquisition(Want(("s/",)))
    holder.go(first)
    holder.go(holder.acquisition(PERMIT))
    refused = other.acquisition(THREE)
    other.go(refused)
    other.work(0.0)
    other.etcd.remove(["s/1-1"])
    gone = KeyValue("s/1-1", b"", 0, other.etcd.revision, 0)
    other.core.following.handle_event("s/", [Event(True, gone)], 0.0)
    with pytest.raises(AdmissionConflict, match="limit of 2, not 3"):
        other.go(refused)


@pytest.mark.parametrize(
    ("in_doubt", "created", "lease_id", "revision", "is_ours"),
    [
        pytest.param(False, 10, 1, 10, False, id="of a first write, which has not written it"),
        pytest.param(True, 10, 1, 10, True, id="of a write in doubt"),
        pytest.param(True, 9, 1, 10, False, id="known before"),
        pytest.param(True, 5, 1, 6, False, id="a restore is told"),
        pytest.param(True, 10, 0, 10, False, id="without our lease"),
    ],
)
def test_a_key_that_was_there_is_ours_by_a_write_in_doubt_alone(
    sessions: tuple[Session, Session], in_doubt: bool, created: int, lease_id: int, revision: int, is_ours: bool
) -> None:
    """Another one of its name was in an etcd that was restored, or was put by hand."""
    session, _ = sessions
    session.core.revision = 9
    ticket = session.acquisition().ticket
    ticket.in_doubt = in_doubt
    kv = KeyValue(ticket.key, b"", created, created, lease_id)
    assert session.core.written(ticket, Written(kv, 1, None, revision, was_there=True), 0.0) is is_ours
    assert ticket.stage is (Stage.HELD if is_ours else Stage.RELEASED)


@pytest.mark.parametrize(
    ("created", "was_there", "floor", "stage"),
    [(9, False, 0, Stage.HELD), (9, True, 9, Stage.RELEASED), (None, False, 9, Stage.RELEASED)],
)
def test_a_key_that_is_new_at_a_known_revision_tells_of_a_restore(
    sessions: tuple[Session, Session], created: int | None, was_there: bool, floor: int, stage: Stage
) -> None:
    """And is held: no revision is written twice but in another history; what is not new does not tell."""
    session, _ = sessions
    session.core.revision = 9
    ticket = session.acquisition().ticket
    kv = None if created is None else KeyValue(ticket.key, b"", created, created, 1)
    session.core.written(ticket, Written(kv, 1, None, 9, was_there), 0.0)
    assert (ticket.floor, ticket.stage, session.core.revision) == (floor, stage, 9)


def test_deletions_that_nobody_waits_for_are_due_at_once_and_gather_behind_a_group(
    sessions: tuple[Session, Session],
) -> None:
    """The driver is called for the first, not for what waits for the answer of its group, and for that after it."""
    session, _ = sessions
    core, holds = session.core, [session.acquisition(Want((name,))) for name in ("a/", "b/")]
    for hold in holds:
        session.go(hold)
    core.is_early = False
    core.release(holds[0].ticket, 0.0, waits=False)
    assert core.is_early
    core.poll(0.0)
    (group,) = core.commands
    assert isinstance(group, Delete)
    core.is_early = False
    core.release(holds[1].ticket, 0.0, waits=False)
    assert not core.is_early
    core.answered(group, session.etcd.delete_keys(group), 0.0)
    assert core.is_early


def test_a_loss_is_told_once_and_ends_all(sessions: tuple[Session, Session]) -> None:
    """Tickets keep the failure they had; queues are left; what comes later changes nothing."""
    holder, other = sessions
    holder.go(holder.acquisition())
    waits, cancelled = other.acquisition(), other.acquisition()
    other.go(waits)
    other.go(cancelled)
    other.work(0.0)
    other.core.cancel(cancelled.ticket, LockCancelled("enough"), 0.0)
    assert other.core.lose("is gone")
    assert not other.core.lose("is gone again")
    assert "gone again" not in str(other.core.failure)
    assert type(waits.ticket.failure) is SessionLost
    assert type(cancelled.ticket.failure) is LockCancelled
    assert Unfollow("m/") in other.core.commands
    assert other.core.remaining(0.0) == 0.0
    assert other.core.poll(1.0) == math.inf
    for ticket in (waits.ticket, cancelled.ticket):
        with pytest.raises(SessionLost):
            other.core.check(ticket, 0.0)


def test_a_hold_that_is_over_is_not_released_again(sessions: tuple[Session, Session]) -> None:
    """Nor after its lease's end, on the very second; several are released as far as they are held."""
    session, other = sessions
    first, second = session.acquisition(), session.acquisition(Want(("n/",)))
    session.go(first)
    session.go(second)
    assert isinstance(session.core.release(first.ticket, 0.0), Delete)
    with pytest.raises(NotHeld):
        session.core.release(first.ticket, 0.0)
    groups, attended, failures = release_together(session.core, [first.ticket, second.ticket], 0.0, waits=True)
    assert (len(groups), attended, [type(error) for error in failures]) == (1, [second.ticket], [NotHeld])
    late = other.acquisition(Want(("o/",)))
    other.go(late)
    with pytest.raises(SessionLost, match="could not be kept alive for 10 s"):
        other.core.release(late.ticket, float(TTL_S))


def test_a_denied_queue_cancels_those_that_wait_in_it(sessions: tuple[Session, Session]) -> None:
    """With what etcd has said, and the queue is left."""
    holder, other = sessions
    holder.go(holder.acquisition())
    waits = other.acquisition()
    other.go(waits)
    other.core.following.handle_event("m/", EtcdDenied("no right to m/"), 0.0)
    with pytest.raises(EtcdDenied, match="no right to m/"):
        other.go(waits)
    assert Unfollow("m/") in other.core.commands


def test_keys_that_etcd_refuses_to_delete_together_are_deleted_one_by_one(sessions: tuple[Session, Session]) -> None:
    """And those that it cannot delete now are tried again, later each time."""
    session, _ = sessions
    for name in ("a/", "b/"):
        acquisition = session.acquisition(Want((name,)))
        session.go(acquisition)
        session.core.release(acquisition.ticket, 0.0, waits=False)
    session.core.poll(0.0)
    (both,) = [each for each in session.core.commands if isinstance(each, Delete)]
    session.core.commands.clear()
    session.core.failed(both, EtcdDenied("no right"), 0.0)
    session.core.poll(0.0)
    (one,) = [each for each in session.core.commands if isinstance(each, Delete)]
    assert (len(both.keys), len(one.keys)) == (2, 1)
    pauses = []
    now = 0.0
    for _ in range(3):
        session.core.failed(one, EtcdUnavailable("away"), now)
        pauses.append(round(session.core.deletions.poll(now) - now, 3))
        now += pauses[-1]
        session.core.commands.clear()
        session.core.poll(now)
        (one,) = [each for each in session.core.commands if isinstance(each, Delete)]
    assert pauses == [0.05, 0.1, 0.2]


def test_a_hold_that_was_lost_unnoticed_is_logged(
    sessions: tuple[Session, Session], caplog: pytest.LogCaptureFixture
) -> None:
    """Where no thread waits for the deletion; a deletion in doubt may have been the one that deleted it."""
    logging.disable(logging.NOTSET)
    session, _ = sessions
    for name, is_doubted in (("a/", False), ("b/", True)):
        acquisition = session.acquisition(Want((name,)))
        session.go(acquisition)
        session.core.release(acquisition.ticket, 0.0, waits=False)
        session.etcd.remove([acquisition.ticket.key])
        session.core.poll(0.0)
        (request,) = [each for each in session.core.commands if isinstance(each, Delete)]
        session.core.commands.clear()
        if is_doubted:
            session.core.deletions.unanswered(request)
        session.core.answered(request, session.etcd.delete_keys(request), 0.0)
        assert acquisition.ticket.was_there is is_doubted
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "key a/1-1 was gone before it was released"
    ]


def test_where_the_list_of_the_lease_is_denied_the_keys_are_read(sessions: tuple[Session, Session]) -> None:
    """Those of tickets, and those in doubt, which are deleted."""
    session, _ = sessions
    hold = session.acquisition()
    session.go(hold)
    lost = session.acquisition(Want(("n/",)))
    request = request_of(lost)
    lost.unanswered(request)
    session.core.unwritten(lost.ticket, 0.0)
    session.core.cancel(lost.ticket, LockCancelled("enough"), 0.0)
    session.work(0.0)
    session.etcd.create_key(request)  # late
    session.core.poll(3.0)
    (listing,) = [each for each in session.core.commands if isinstance(each, ListLease)]
    session.core.commands.clear()
    session.core.failed(listing, EtcdDenied("no right"), 3.0)
    session.work(4.0)
    session.work(4.1)
    assert list(session.etcd.keys) == ["m/1-1"]
    session.etcd.remove(["m/1-1"])
    session.work(7.0)
    assert type(hold.ticket.failure) is LockLost


def test_a_lease_that_etcd_does_not_know_is_no_lost_key(sessions: tuple[Session, Session]) -> None:
    """It is renewed at once, which tells."""
    session, _ = sessions
    hold = session.acquisition()
    session.go(hold)
    session.etcd.revoke(1)
    assert Renew() in session.work(3.0)
    session.core.check(hold.ticket, 3.0)
    session.core.renewed(3.0, 0, 3.0)
    assert type(hold.ticket.failure) is SessionLost


def test_what_its_own_lease_has_left_is_no_answer_to_a_timeout(sessions: tuple[Session, Session]) -> None:
    """An answer that the holder's lease cannot be asked ends the wait all the same."""
    holder, other = sessions
    holder.go(holder.acquisition())
    waits = other.acquisition(deadline=1.0)
    other.go(waits)
    other.work(0.0)
    request = request_of(waits, 1.0)
    assert request == TimeToLive(1)
    waits.failed(request, EtcdUnavailable("away"), 1.0)
    with pytest.raises(LockTimeout, match="held by"):
        waits.next(1.0)
