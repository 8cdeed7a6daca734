"""An acquisition, step by step: what it sends, how long it sleeps, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from lock.core.acquisition import FAREWELL_S, Acquisition, Send, Sleep
from lock.core.messages import Create, ListQueue, TimeToLive
from lock.core.queue import Stage
from lock.errors import (
    EtcdDenied,
    EtcdError,
    EtcdUnavailable,
    LeaseNotFound,
    LockCancelled,
    LockError,
    LockLost,
    LockTimeout,
    SessionLost,
)
from lock.model import LeaseStatus
from tests.lock.core.sessions import Session, request_of
from tests.lock.core.small_world import Want
from tests.lock.core.tickets import AWAY, DENIED
from tests.lock.core.worlds import LOCK, READ, WRITE

Sessions = tuple[Session, Session]


def waiting(sessions: Sessions, want: Want = LOCK, **options: Any) -> Acquisition:
    """Of the second session, behind a hold of the first one; its queue is listed."""
    holder, other = sessions
    first = holder.acquisition()
    holder.go(first)
    first.ticket.waiter = None
    acquisition = other.acquisition(want, **options)
    other.go(acquisition)
    other.work(0.0)
    return acquisition


def create(acquisition: Acquisition) -> Create:
    request = request_of(acquisition)
    assert isinstance(request, Create)
    return request


@pytest.mark.parametrize(
    ("deadline", "writes"),
    [
        pytest.param(0.5, [0.0, 0.2, 0.4, 0.5], id="to the deadline itself"),
        pytest.param(0.0, [0.0, 0.1], id="once in any case, for a connection may have been reset"),
        pytest.param(0.0, [0.9], id="not beyond a call's time"),
    ],
)
def test_a_write_is_repeated_after_a_moment_as_long_as_there_is_time(
    sessions: Sessions, deadline: float, writes: list[float]
) -> None:
    """Where etcd is away; then the error says that there was no place in time."""
    acquisition = sessions[0].acquisition(deadline=deadline)
    for now in writes:
        acquisition.failed(request_of(acquisition, now), AWAY, now)
        if now != writes[-1]:
            assert acquisition.next(now + 0.05) == Sleep(now + 0.1)
    with pytest.raises(EtcdUnavailable, match="'m': no place in the queue in time: away") as raised:
        acquisition.next(writes[-1])
    assert raised.value.__cause__ is AWAY
    assert acquisition.ticket.stage is Stage.RELEASED


@pytest.mark.parametrize(
    ("error", "raises", "is_over"),
    [(LeaseNotFound("no lease"), SessionLost, True), (DENIED, EtcdDenied, False)],
)
def test_a_write_that_is_refused_ends_the_wait(
    sessions: Sessions, error: EtcdError, raises: type[LockError], is_over: bool
) -> None:
    """One for a lease that etcd does not know ends the session."""
    session, _ = sessions
    acquisition = session.acquisition()
    acquisition.failed(create(acquisition), error, 0.0)
    with pytest.raises(raises, match="'m': no right" if raises is EtcdDenied else "has expired"):
        acquisition.next(0.0)
    assert (session.core.failure is not None) is is_over
    assert acquisition.ticket.stage is Stage.RELEASED


def test_a_wait_sleeps_until_its_deadline(sessions: Sessions) -> None:
    """Then what the holder's lease has left is asked once."""
    acquisition = waiting(sessions, deadline=40.0)
    assert acquisition.ticket.waiter is not None
    assert acquisition.ticket.waiter() is acquisition
    sessions[1].core.deadline = 100.0
    assert acquisition.next(39.0) == Sleep(40.0)
    assert request_of(acquisition, 40.0) == TimeToLive(1)
    acquisition.failed(TimeToLive(1), AWAY, 40.0)
    with pytest.raises(LockTimeout, match="held by"):
        acquisition.next(40.0)


def test_requests_end_with_the_call(sessions: Sessions) -> None:
    """However long one may take alone; and a doubt remains, whatever else is not answered."""
    acquisition = sessions[0].acquisition(last=0.25)
    step = acquisition.next(0.0)
    assert isinstance(step, Send)
    assert step.timeout == 0.25
    acquisition.unanswered(step.request)
    acquisition.unanswered(TimeToLive(1))
    assert acquisition.ticket.in_doubt


def test_a_timeout_waits_for_the_list_that_tells_who_holds(sessions: Sessions) -> None:
    """For a call's time."""
    holder, other = sessions
    holder.go(holder.acquisition())
    acquisition = other.acquisition(deadline=0.5)
    other.go(acquisition)
    assert str(acquisition.timed_out(0.5, None)).endswith("holder unknown")
    acquisition.ticket.queue.trouble = "the watch is denied"
    assert acquisition.next(0.5) == Sleep(0.5 + FAREWELL_S)
    with pytest.raises(LockTimeout, match=r"not acquired within 1\.5 s; holder unknown: the watch is denied"):
        acquisition.next(1.5)
    assert acquisition.ticket.stage is Stage.RELEASING


@pytest.mark.parametrize(
    ("name", "lease_id", "is_below"), [("m/0-go", 0, False), ("m/below/0-go", 0, True), ("m/0-go", 7, False)]
)
def test_a_timeout_names_the_key_that_holds(sessions: Sessions, name: str, lease_id: int, is_below: bool) -> None:
    """And asks once what its lease has left, if it has one; that of a name below is told apart."""
    session, _ = sessions
    if lease_id:
        session.etcd.grant(lease_id, 9, 0.0)
    session.etcd.put(name, b"", lease_id)
    acquisition = session.acquisition(deadline=1.0)
    session.go(acquisition)
    session.work(0.0)
    if lease_id:
        assert acquisition.next(1.0) == Send(TimeToLive(lease_id), FAREWELL_S)
        acquisition.answered(TimeToLive(lease_id), LeaseStatus(9, 9), 1.02)
    with pytest.raises(LockTimeout) as raised:
        acquisition.next(1.05)
    assert raised.value.holder is not None
    assert (raised.value.holder.key, raised.value.holder.ttl_s) == (name, 9 if lease_id else None)
    assert ("belongs to a name below 'm'" in str(raised.value)) is is_below
    assert "within 3.0 s" in str(acquisition.timed_out(5.0, None, 2.0))


@pytest.mark.parametrize(
    ("answer", "raises"),
    [(LeaseStatus(-1, 0), SessionLost), (LeaseStatus(0, 9), LockLost), (AWAY, LockLost), ("lost", SessionLost)],
)
def test_a_wait_whose_key_is_gone_asks_for_its_own_lease_once(
    sessions: Sessions, answer: Any, raises: type[LockError]
) -> None:
    """Unless it knows already that the session is over."""
    session = sessions[1]
    acquisition = waiting(sessions)
    session.core.endings.key_deleted(acquisition.ticket, 0.0)
    if answer == "lost":
        session.core.lose("is gone")
    else:
        assert request_of(acquisition) == TimeToLive(2)
        tell: Any = acquisition.failed if answer is AWAY else acquisition.answered
        tell(TimeToLive(2), answer, 0.0)
    with pytest.raises(raises) as raised:
        acquisition.next(0.0)
    assert type(raised.value) is raises


def test_a_thread_that_waits_for_itself_is_told_where_it_acquired(sessions: Sessions) -> None:
    """Only where its own holds of this name, without those of others, keep it waiting."""
    session, _ = sessions
    first = session.acquisition(owner=7)
    second = session.acquisition(owner=7)
    assert second.waits_for_itself() is None  # the first does not hold yet
    second.ticket.where = "shop.py:12"
    session.go(second)
    assert first.waits_for_itself() == second.where == "shop.py:12"
    assert session.acquisition(owner=8).waits_for_itself() is None
    writer = session.acquisition(WRITE, owner=7)
    session.go(writer)
    writer.ticket.where = "shop.py:15"
    assert session.acquisition(READ, owner=7).waits_for_itself() == "shop.py:15"


def test_a_request_that_fails_ends_no_wait(sessions: Sessions) -> None:
    """A read of the predecessor is sent again; where nothing tells who holds, a timeout says why, and a try ends."""
    _, session = sessions
    acquisition = waiting(sessions, deadline=0.5, follows=False)
    (position,) = session.core.predecessors.current()
    session.core.predecessors.handle_event(position, [], 0.0)
    acquisition.failed(request_of(acquisition), AWAY, 0.0)
    assert acquisition.next(0.0) == Sleep(0.05)
    listing = ListQueue("m/", acquisition.ticket.floor, only_first=True)
    assert acquisition.next(0.5) == Send(listing, 1.0)
    acquisition.failed(listing, AWAY, 1.4)
    with pytest.raises(LockTimeout, match="holder unknown: away"):
        acquisition.next(1.4)
    tries = session.acquisition(deadline=0.0, tries=True, explains=True)
    request = create(tries)
    tries.answered(request, session.etcd.create_key(request), 0.0)
    tries.failed(request_of(tries), AWAY, 0.0)
    with pytest.raises(EtcdUnavailable, match="away"):
        tries.next(0.0)


@pytest.mark.parametrize("is_left", [False, True])
def test_a_wait_whose_name_is_in_use_is_lost(sessions: Sessions, is_left: bool) -> None:
    """As an etcd that was restored has brought the key back, which is deleted; the next one has another name."""
    session, _ = sessions
    acquisition = session.acquisition()
    ticket, request = acquisition.ticket, create(acquisition)
    session.etcd.put(ticket.key, b"", 1)
    if is_left:
        session.core.endings.cancel(ticket, LockCancelled("enough"), 0.0)
    acquisition.answered(request, session.etcd.create_key(request), 0.0)
    session.work(0.25)
    assert not session.etcd.has(ticket.key, 2)
    with pytest.raises(LockCancelled if is_left else LockLost, match="enough" if is_left else "was there before"):
        acquisition.next(0.0) if is_left else session.go(acquisition)  # which looks whether its lease is gone
    assert session.acquisition().ticket.key == "m/1-2"


def test_its_own_key_is_not_named_as_that_of_the_holder(sessions: Sessions) -> None:
    """Where it is the first one, and nothing tells yet that it holds."""
    acquisition = waiting(sessions)
    view = acquisition.ticket.queue.view
    assert view is not None
    view.discard("m/1-1", view.create_revision("m/1-1") or 0)
    assert acquisition.holder() is None


def test_a_try_has_a_free_lock_at_once(sessions: Sessions) -> None:
    """By one write, which may be repeated, whoever has come behind it meanwhile."""
    session, other = sessions
    free = session.acquisition(deadline=0.0, tries=True)
    request = create(free)
    assert (request.if_free, request.lists) == (True, False)
    answer = session.etcd.create_key(request)
    other.etcd.put("m/2-9", b"", 2)
    free.unanswered(request)
    free.failed(request, AWAY, 0.0)
    request = request_of(free, 0.1)
    free.answered(request, session.etcd.create_key(request), 0.1)
    assert free.next(0.1) is None
    assert (free.is_held, free.ticket.created) == (True, answer.kv and answer.kv.create_revision)


def test_a_try_leaves_where_another_one_has_come_between(sessions: Sessions) -> None:
    """It joins those that it may hold with by a second write."""
    holder, other = sessions
    holder.go(holder.acquisition(READ))
    tries = other.acquisition(READ, deadline=0.0, tries=True)
    request = create(tries)
    assert (request.if_free, request.lists) == (True, True)
    tries.answered(request, other.etcd.create_key(request), 0.0)
    request = create(tries)
    assert (request.if_free, request.lists) == (False, True)
    other.etcd.put("rw/0-go", b"", 0)
    tries.answered(request, other.etcd.create_key(request), 0.0)
    assert tries.next(0.0) is None
    assert not tries.is_held
    other.work(0.0)
    assert len(other.etcd.keys) == 2
    assert tries.ticket.queue.view is None


@pytest.mark.parametrize("is_followed", [False, True])
@pytest.mark.parametrize("tries", [False, True])
def test_a_write_lists_the_queue_where_it_may_hold_beside_others(
    sessions: Sessions, is_followed: bool, tries: bool
) -> None:
    """By a try, and where no view tells; one that excludes all others never does."""
    session, _ = sessions
    session.etcd.put("rw/0-go", b"", 0)
    if is_followed:
        session.go(session.acquisition(READ))
        session.work(0.0)
    assert create(session.acquisition(READ, tries=tries)).lists is (tries or not is_followed)
    assert not create(session.acquisition(Want(("rw/",)), tries=tries)).lists
