"""The names of keys, and what a queue knows: by itself, one fact after the other."""

from __future__ import annotations

import pytest

from lock.core.admission import EXCLUSIVE
from lock.core.queue import KeyNames, Queue, Stage, Ticket, pause
from lock.model import Snapshot
from tests.lock.core.tickets import deleted, key


def ticket_in(queue: Queue, name: str, created: int | None, stage: Stage = Stage.HELD, slot: int = 1) -> Ticket:
    ticket = queue.tickets[name] = Ticket(queue, slot, name, EXCLUSIVE, 0, None, stage=stage, created=created)
    return ticket


@pytest.fixture
def queue() -> Queue:
    """Followed since second 3, listed at revision 10: a holds, b waits."""
    queue = Queue("")
    queue.follow(3.0)
    queue.watching(3.0)
    queue.take(Snapshot(10, [key("a", 4), key("b", 6)]), 0, 3.0)
    queue.catch_up()
    assert queue.is_listed
    return queue


def test_a_name_in_doubt_is_never_used_again() -> None:
    """Nor one below it, whichever queue asks."""
    names, queue, below = KeyNames(0xAB), Queue("m/"), Queue("m/read/")
    tickets = [
        ticket_in(queue, name, 5, slot=slot) for slot, name in (names.take(queue, "read/", ()) for _ in range(3))
    ]
    queue.give_back(tickets[0])
    queue.give_back(tickets[1])
    names.burn(tickets[1])
    names.burn(tickets[0])
    queue.give_back(tickets[2])
    assert names.take(queue, "read/", ()) == (3, "m/read/ab-3")
    assert names.take(below, "", ()) == (3, "m/read/ab-3")
    assert names.take(Queue("n/"), "", ("n/ab-3",)) == (4, "n/ab-4")


def test_what_is_told_before_the_list_counts_after_it(queue: Queue) -> None:
    """Of this watch, and once."""
    queue.broken()
    queue.apply([deleted("b", 15)])
    queue.watching(3.0)
    queue.apply([deleted("a", 12)])
    queue.take(Snapshot(11, [key("a", 4), key("b", 6)]), 0, 4.0)
    queue.catch_up()
    holder = queue.holder()
    assert holder is not None
    assert holder.key == "b"


@pytest.mark.parametrize(
    ("created", "listed", "shows", "lacks", "settled"),
    [
        pytest.param(4, True, True, False, True, id="in the view"),
        pytest.param(4, False, True, False, False, id="in a view that is not listed"),
        pytest.param(5, True, False, True, True, id="another key of its name is"),
        pytest.param(11, True, False, False, False, id="not yet"),
        pytest.param(10, True, False, True, True, id="not at the view's revision"),
        pytest.param(None, True, False, False, False, id="not written"),
        pytest.param(4, None, False, False, False, id="without a view"),
    ],
)
def test_a_view_shows_a_ticket_or_lacks_it(
    queue: Queue, created: int | None, listed: bool | None, shows: bool, lacks: bool, settled: bool
) -> None:
    """By its very key, and as far as the view can know."""
    if listed is False:
        queue.broken()
    if listed is None:
        queue.view = None
    for name in ("a", "z") if created is None else ("a",):
        ticket = ticket_in(queue, name, created)
        assert (queue.shows(ticket), queue.lacks(ticket), queue.is_settled(ticket)) == (shows, lacks, settled)


@pytest.mark.parametrize(
    ("change", "is_alone"),
    [
        ("", True), ("broken", False), ("unfollowed", False), ("queued", False), ("other key", False),
        ("its key is not shown yet", True), ("beside a ticket", False), ("beside one that leaves", True),
    ],
)  # fmt: skip
def test_a_hold_is_alone_where_none_can_come_untold(queue: Queue, change: str, is_alone: bool) -> None:
    """While the view is watched and listed, no other key is there, and no ticket of this session is about to write."""
    ticket = ticket_in(queue, "a", 4, Stage.QUEUED if change == "queued" else Stage.HELD)
    gone = {"other key": "", "its key is not shown yet": "ab"}.get(change, "b")
    queue.apply([deleted(name, 11 + place) for place, name in enumerate(gone)])
    if change == "broken":
        queue.broken()
    if change == "unfollowed":
        queue.view = None
    if "beside" in change:
        ticket_in(queue, "c", None, Stage.WRITING if change == "beside a ticket" else Stage.RELEASING)
    assert queue.is_alone(ticket) is is_alone


@pytest.mark.parametrize(("keys", "seconds"), [(1, 5.0), (99, 5.0), (100, 10.0), (800, 45.0)])
def test_a_long_queue_is_audited_less_often(queue: Queue, keys: int, seconds: float) -> None:
    """For each session that waits in it lists all of it."""
    queue.take(Snapshot(20, [key(str(number), number + 1) for number in range(keys)]), 0, 4.0)
    assert queue.audit_in() == seconds


def test_after_each_failure_the_pause_is_longer() -> None:
    """From the fifth one, one after the other, it stays a second."""
    assert [pause(failures) for failures in range(1, 8)] == [0.05, 0.1, 0.2, 0.5, 1.0, 1.0, 1.0]
