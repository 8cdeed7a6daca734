"""The queues that are followed: when they are listed, audited and left, and what lists and events do to tickets."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lock.core.core import Core
from lock.core.messages import Follow, ListQueue, Unfollow
from lock.core.queue import Observer, Queue, Stage, Ticket
from lock.errors import AdmissionConflict, EtcdDenied, LockLost
from lock.model import KeyValue, Snapshot
from tests.lock.core.tickets import AWAY, DENIED, commands_of, core_of, deleted, key, listed, written
from tests.lock.core.worlds import PERMIT, THREE


class Looks(Observer):
    """Whether the queue was watched and listed, and had a view, each time that it was to be looked at."""

    def __init__(self) -> None:
        self.seen: list[tuple[bool, bool]] = []

    def look(self, queue: Queue, now: float) -> None:
        self.seen.append((queue.is_watched, queue.is_listed))


def waits(core: Core, prefix: str = "m/") -> Ticket:
    """A ticket that waits behind another session, in a queue that is watched and listed."""
    ticket = written(core, prefix, number=2)
    listed(core, prefix, core.revisions.highest, key(f"{prefix}b-1", 1, 0xB), key(ticket.key, ticket.created or 0))
    assert ticket.stage is Stage.QUEUED
    return ticket


def asked(core: Core, now: float | None = None) -> list[str]:
    """Which queues are listed."""
    return [request.prefix for request in commands_of(core, ListQueue, now)]


def watching(core: Core, prefix: str) -> ListQueue:
    """A queue in which a ticket waits is asked for a first time."""
    written(core, prefix, number=2)
    core.following.handle_event(prefix, [], 0.0)
    (request,) = commands_of(core, ListQueue, 0.0)
    return request


def test_a_list_that_fails_is_asked_for_again_later_each_time() -> None:
    """Until it is answered, and no sooner because another one is due; what is left or not watched is not."""
    core = core_of()
    follow = core.following
    request, queue = watching(core, "m/"), core.queues["m/"]
    now = 0.0
    for pause in (0.05, 0.1):
        core.outbox.is_early, follow.due = False, 99.0
        core.failed(request, AWAY, now)
        assert (core.outbox.is_early, follow.due, queue.trouble) == (True, now + pause, "away")
        follow.due = now + pause / 2
        assert asked(core, now + pause / 2) == []
        assert follow.due == now + pause
        now += pause
        (request,) = commands_of(core, ListQueue, now)
    written(core, "n/", number=2)
    core.answered(request, Snapshot(9, [key("m/b-1", 1, 0xB), key("m/a-1", 2)]), now)
    assert queue.trouble is None
    core.restored(now + 1.0)
    (request,) = commands_of(core, ListQueue, now + 1.0)
    core.failed(request, AWAY, now + 1.0)
    assert asked(core, now + 1.1) == ["m/"]  # the pauses begin anew
    follow.handle_event("m/", AWAY, now)
    core.failed(request, AWAY, now)
    follow.unfollow(core.queues["n/"])
    core.failed(ListQueue("n/", 0), AWAY, now)
    assert asked(core, now + 5.0) == []
    core.outbox.is_early = False
    follow.handle_event("m/", [], now + 5.0)
    assert core.outbox.is_early
    assert asked(core, now + 5.0) == ["m/"]


def test_a_queue_whose_list_etcd_refuses_is_left() -> None:
    """In it nothing can wait: its tickets say why, and observers are told; others go on."""
    core = core_of()
    request, looks = watching(core, "m/"), Looks()
    watching(core, "n/")
    core.queues["m/"].observers[looks] = None
    core.failed(request, DENIED, 0.0)
    assert looks.seen[-1] == (False, False)
    assert commands_of(core, Unfollow) == [Unfollow("m/")]
    assert [str(ticket.failure) for ticket in core.tickets.values()] == ["no right", "None"]
    assert list(core.following.followed) == ["n/"]
    core.endings.gone(core.tickets["m/a-1"], was_there=True)
    assert list(core.queues) == ["n/"]


@pytest.mark.parametrize(("error", "is_denied"), [(AWAY, False), (DENIED, True)])
def test_a_watch_that_breaks_is_told_and_listed_again(error: Any, is_denied: bool) -> None:
    """The view stays; a list that was asked for before it broke, or before it stands again, does not count."""
    core = core_of()
    ticket, looks = waits(core), Looks()
    queue = ticket.queue
    core.restored(0.0)
    (late,) = commands_of(core, ListQueue, 0.0)
    queue.observers[looks] = None
    core.following.handle_event("m/", error, 0.0)
    assert (looks.seen, queue.trouble, type(ticket.failure)) == (
        [(False, False)] if not is_denied else [(False, False)] * len(looks.seen), str(error),
        EtcdDenied if is_denied else type(None),
    )  # fmt: skip
    free = Snapshot(99, [key(ticket.key, ticket.created or 0)])
    core.answered(late, free, 0.0)
    core.following.handle_event("m/", [], 0.0)
    core.answered(late, free, 0.0)
    assert (ticket.stage is Stage.QUEUED, queue.view is not None) == (not is_denied, not is_denied)
    assert asked(core, 0.0) == ["m/"] * (not is_denied)


def test_what_the_watch_tells_may_be_a_turn() -> None:
    """Of the key before it; and what is told by a list of an older revision is a restore."""
    core = core_of()
    ticket = waits(core)
    core.following.handle_event("m/", [deleted("m/b-1", 5)], 0.0)
    assert ticket.stage is Stage.HELD
    core.answered(watching(core, "n/")._replace(known=9), Snapshot(8, []), 0.0)
    assert core.revisions.highest == 8


def test_a_queue_that_is_observed_is_not_left() -> None:
    """Nor listed before it is watched, as after a restore."""
    core = core_of()
    held = written(core, "m/")
    held.queue.observers[Observer()] = None
    core.following.join(held.queue, 0.0)
    core.restored(0.0)
    assert asked(core, 0.0) == []
    core.renewed(0.0, 60, 0.0)
    for now in (5.1, 10.2):
        core.following.due = now
        core.poll(now)
    assert list(core.following.followed) == ["m/"]


def test_a_queue_is_audited_while_somebody_waits_and_left_after_the_last_one() -> None:
    """Five seconds later it is watched anew, and listed then; one that is not listed yet is not audited."""
    core = core_of()
    follow, ticket = core.following, waits(core)
    other = written(core, "n/", number=2)
    assert [core.poll(now) <= now + 1.0 for now in (1.0, 2.0, 3.0, 4.0)] == [True] * 4
    assert asked(core, Queue.audit_s - 0.01) == []
    follow.due = Queue.audit_s
    core.poll(Queue.audit_s)
    assert core.outbox.commands == [Follow("m/")]  # the watch may be silent
    assert not ticket.queue.is_listed
    core.endings.leave(other, 5.5)
    core.endings.gone(other, was_there=True)
    core.renewed(6.0, 60, 6.0)
    follow.due = 6.0
    core.poll(6.0)
    core.outbox.commands.clear()
    core.endings.leave(ticket, 6.0)
    core.endings.gone(ticket, was_there=True)
    for now, left in ((10.0, []), (10.01, ["n/"]), (11.0, []), (11.01, ["m/"]), (20.0, [])):
        follow.due = now
        assert commands_of(core, Unfollow, now) == list(map(Unfollow, left))
    assert not core.queues
    assert core.poll(20.0) > 21.0  # nothing is due by queues


@pytest.mark.parametrize(
    ("keys", "revision", "granted_at", "stage", "is_lost"),
    [
        pytest.param("own", 9, 9, Stage.HELD, False, id="first"),
        pytest.param("other own", 9, 9, Stage.HELD, True, id="overtaken"),
        pytest.param("other own", 9, 10, Stage.HELD, False, id="older than its grant"),
        pytest.param("other own", 9, 0, Stage.QUEUED, False, id="waits"),
        pytest.param("other own", 5, 5, Stage.HELD, False, id="older than the view"),
        pytest.param("other", 9, 9, Stage.HELD, True, id="gone"),
        pytest.param("other", 9, 9, Stage.QUEUED, True, id="gone while it waits"),
        pytest.param("late", 9, 0, Stage.HELD, False, id="older than the key"),
    ],
)
def test_a_list_tells_who_was_overtaken_or_is_gone(
    keys: str, revision: int, granted_at: int, stage: Stage, is_lost: bool
) -> None:
    """Where it is not older than the view, the key, and the grant."""
    core = core_of()
    ticket = waits(core)
    core.restored(0.0)
    (request,) = commands_of(core, ListQueue, 0.0)
    assert ticket.queue.view is not None
    ticket.queue.view.revision = 8
    ticket.stage, ticket.granted_at = stage, granted_at
    if keys == "late":
        ticket.created = 20
    there = [key("m/b-1", 1, 0xB)] * ("other" in keys) + [key(ticket.key, 2)] * ("own" in keys)
    ticket.queue.list_at = 0.0
    core.answered(request._replace(known=4), Snapshot(revision, there), 0.0)
    assert (type(ticket.failure) is LockLost, ticket.queue.list_at) == (is_lost, math.inf)


def test_a_conflict_is_told_to_those_whose_keys_stand_in_the_queue() -> None:
    """By the first key; not to one whose key may come after it has left, nor to one of another rule."""
    core = core_of()
    two = KeyValue("s/b-1", PERMIT.value, 2, 2, 0xB)
    waiting, writing, plain = (
        written(core, "s/", number=None, rule=THREE.terms.rule),
        core.begin("s/", "", THREE.terms.rule, 0.0),
        written(core, "s/", number=None),
    )
    listed(core, "s/", 9, two, KeyValue(waiting.key, THREE.value, 2, 2, 0xA), key(plain.key, 3))
    assert type(waiting.failure) is AdmissionConflict
    assert (writing.failure, plain.failure) == (None, None)
