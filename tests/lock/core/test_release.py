"""A release, step by step: what it sends, how long it waits, and what it says of a hold that was not released."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from lock.core.acquisition import FAREWELL_S, Send, Sleep
from lock.core.queue import Ticket
from lock.core.release import Release
from lock.errors import EtcdUnavailable, LockError, LockLost, NotHeld, SessionLost
from tests.lock.core.sessions import Session
from tests.lock.core.small_world import TTL_S, Etcd, Want
from tests.support.waiting import Patch

UNTIL = 1.0


def hold(session: Session, name: str = "m/") -> Ticket:
    acquisition = session.acquisition(Want((name,)))
    session.go(acquisition)
    return acquisition.ticket


def release_of(session: Session, *tickets: Ticket, waits: bool = True, is_closed: bool = False) -> Release:
    return Release(session.core, tickets, UNTIL, waits=waits, is_closed=lambda: is_closed)


def sent(release: Release, now: float = 0.0) -> Any:
    """What it sends now, and how long that may take."""
    step = release.next(now)
    assert isinstance(step, Send)
    return step


@pytest.fixture
def session() -> Session:
    return Session(Etcd(), 1)


def test_a_release_sends_once_and_waits_for_the_answer(session: Session) -> None:
    """It has what is left of its time, and enough to ask; who waits for it is woken by its tickets."""
    ticket = hold(session)
    release = release_of(session, ticket)
    release.wake_by(print)
    step = sent(release, 0.25)
    assert (step.request.keys, step.timeout) == (((ticket.key, ticket.created),), 0.75)
    assert ticket.wake is print
    assert release.next(0.5) == Sleep(UNTIL)
    release.unanswered(step.request)
    release.failed(step.request, EtcdUnavailable("away"), 0.5)
    assert ticket.deletion_in_doubt
    assert release.next(0.5) == Sleep(UNTIL)
    session.work(0.55)  # it is sent again, by the session
    assert release.next(0.55) is None
    assert sent(release_of(session, hold(session)), 5.0).timeout == FAREWELL_S


@pytest.mark.parametrize(
    ("what", "now", "raises", "said"),
    [
        ("answered", 0.5, None, ""),
        ("not answered", UNTIL, None, ""),
        ("gone before", 0.5, LockLost, "was gone before it was released"),
        ("closed", 0.5, EtcdUnavailable, f"goes with its lease, within {TTL_S} s"),
        ("lease over", float(TTL_S), SessionLost, "kept alive"),
    ],
)
def test_a_release_says_what_became_of_its_hold(
    session: Session, caplog: pytest.LogCaptureFixture, what: str, now: float, raises: type[LockError] | None, said: str
) -> None:
    """It raises a loss; what etcd has not confirmed in time is logged once, however many keys that are."""
    logging.disable(logging.NOTSET)
    for name in ("a/", "b/"):
        ticket = hold(session, name)
        if what == "gone before":
            session.etcd.remove([ticket.key])
        release = release_of(session, ticket, is_closed=what == "closed")
        request = sent(release).request
        if what in ("answered", "gone before"):
            release.answered(request, session.etcd.delete_keys(request), 0.5)
        if raises is None:
            assert release.next(now) is None
        else:
            with pytest.raises(raises, match=said):
                release.next(now)
        if what == "lease over":
            break
    assert caplog.text.count("are deleted later") == (what in ("not answered", "lease over"))


@pytest.mark.parametrize("most", [1, 2, 3])
def test_holds_are_released_in_groups(session: Session, most: int, monkeypatch: Patch) -> None:
    """As many as one transaction takes; what is not waited for goes by itself."""
    monkeypatch.setattr(session.core.deletions, "_group", most)
    tickets = [hold(session, name) for name in ("a/", "b/", "c/")]
    release = release_of(session, *tickets)
    request = sent(release).request
    assert list(request.keys) == [(each.key, each.created) for each in tickets[:most]]
    release.answered(request, session.etcd.delete_keys(request), 0.0)
    assert isinstance(release.next(0.0), Sleep) is (most < 3)
    session.work(0.0)
    assert release.next(0.0) is None
    with pytest.raises(NotHeld):
        release_of(session, *tickets).next(0.0)
    assert release_of(session, hold(session), waits=False).next(0.0) is None
