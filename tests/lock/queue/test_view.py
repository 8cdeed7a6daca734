"""QueueView: a pure state machine, fed by lists and events of whatever age and order."""

from __future__ import annotations

import pytest

from lock.model import Event, KeyValue, Snapshot
from lock.queue.view import QueueView


def key(name: str, created: int, modified: int | None = None, value: bytes = b"") -> KeyValue:
    """A key in a queue."""
    return KeyValue(name, value, created, modified or created, 1)


def put(name: str, created: int, modified: int | None = None) -> Event:
    """The event of a key that is written."""
    return Event(False, key(name, created, modified))


def gone(name: str, revision: int) -> Event:
    """The event of a key that is deleted, as etcd tells it: no more than name and revision."""
    return Event(True, KeyValue(name, b"", 0, revision, 0))


def order(view: QueueView) -> list[str]:
    """The names in the queue, holder first."""
    return [kv.key for kv in view.in_order()]


@pytest.fixture
def view() -> QueueView:
    """As of revision 10: a holds, b and c wait."""
    view = QueueView()
    assert view.replace(Snapshot(10, [key("a", 3), key("b", 5), key("c", 8)]))
    return view


def test_before_the_first_list_nobody_is_head() -> None:
    """Events alone do not tell who stood there before: they are dropped."""
    view = QueueView()
    view.apply([put("b", 5)])
    assert view.head() is None
    assert view.revision == 0
    assert len(view) == 0


def test_a_list_that_was_late_is_not_taken(view: QueueView) -> None:
    """It was asked for before the view knew of what it does not tell."""
    assert not view.replace(Snapshot(9, []), known=9)
    assert order(view) == ["a", "b", "c"]


def test_a_list_from_before_what_was_known_is_taken(view: QueueView) -> None:
    """etcd was restored from a backup: what the view knows is not true any more."""
    assert view.replace(Snapshot(9, [key("b", 5)]), known=10)
    assert order(view) == ["b"]
    assert view.revision == 9


def test_the_oldest_create_revision_holds(view: QueueView) -> None:
    """The first of the list is the head."""
    head = view.head()
    assert head is not None
    assert head.key == "a"
    assert order(view) == ["a", "b", "c"]


def test_the_head_leaves_and_the_next_one_follows(view: QueueView) -> None:
    """A DELETE of the head makes the second one head."""
    view.apply([gone("a", 11)])
    assert order(view) == ["b", "c"]
    assert view.revision == 11


def test_one_in_the_middle_leaves(view: QueueView) -> None:
    """A DELETE in the middle changes nothing for the head."""
    view.apply([gone("b", 11)])
    assert order(view) == ["a", "c"]


def test_a_newcomer_stands_last(view: QueueView) -> None:
    """A PUT of a new key goes to the end."""
    view.apply([put("d", 11)])
    assert order(view) == ["a", "b", "c", "d"]
    assert view.create_revision("d") == 11
    assert view.create_revision("e") is None


def test_an_overwritten_key_keeps_its_place(view: QueueView) -> None:
    """A new value does not change the create revision."""
    view.apply([put("a", 3, 11)])
    assert order(view) == ["a", "b", "c"]
    head = view.head()
    assert head is not None
    assert head.mod_revision == 11


def test_a_key_that_was_deleted_and_written_again_stands_last(view: QueueView) -> None:
    """A new create revision is a new place, even if the DELETE between was never told."""
    view.apply([put("a", 11)])
    assert order(view) == ["b", "c", "a"]


def test_events_told_twice_count_once(view: QueueView) -> None:
    """What the view knows already is passed over, also where the key has left since."""
    view.apply([put("d", 11), gone("a", 12)])
    view.apply([put("d", 11), gone("a", 12)])
    view.apply([gone("d", 13)])
    view.apply([put("d", 11)])
    assert order(view) == ["b", "c"]
    assert view.revision == 13


def test_events_older_than_the_list_are_passed_over(view: QueueView) -> None:
    """A watch that began before the list tells what the list has seen."""
    view.apply([put("x", 9), gone("c", 10)])
    assert order(view) == ["a", "b", "c"]


def test_all_events_of_one_revision_count(view: QueueView) -> None:
    """A lease that ends deletes all its keys in one revision."""
    view.apply([gone("a", 11), gone("c", 11)])
    assert order(view) == ["b"]


def test_an_older_list_is_refused(view: QueueView) -> None:
    """A list that was under way for long does not turn the view back."""
    assert not view.replace(Snapshot(9, [key("a", 3), key("b", 5)]))
    assert order(view) == ["a", "b", "c"]
    assert view.revision == 10


def test_a_list_of_the_same_revision_is_taken(view: QueueView) -> None:
    """It heals what was lost before it: the view had not heard of b's deletion."""
    assert view.replace(Snapshot(10, [key("a", 3), key("c", 8)]))
    assert order(view) == ["a", "c"]


def test_a_newer_list_is_taken(view: QueueView) -> None:
    """What a watch has failed to tell is in the list."""
    assert view.replace(Snapshot(20, [key("c", 8), key("d", 15)]))
    assert order(view) == ["c", "d"]
    assert view.revision == 20


def test_an_empty_queue_has_no_head(view: QueueView) -> None:
    """A list without keys is a list."""
    assert view.replace(Snapshot(11, []))
    assert view.head() is None
    assert len(view) == 0


def test_a_key_of_ours_is_forgotten_ahead_of_its_event(view: QueueView) -> None:
    """discard: the next one is head at once, and the event that follows is harmless."""
    view.discard("a", 3)
    assert order(view) == ["b", "c"]
    view.apply([gone("a", 11)])
    assert order(view) == ["b", "c"]


def test_only_the_very_key_that_was_deleted_is_forgotten(view: QueueView) -> None:
    """A key of the same name with another create revision is somebody else's."""
    view.discard("a", 2)
    view.discard("x", 3)
    assert order(view) == ["a", "b", "c"]


def test_no_older_list_brings_back_a_key_that_was_forgotten(view: QueueView) -> None:
    """A list that was under way when our key was deleted still shows it; the one who follows stays the head."""
    view.discard("a", 3)
    assert view.replace(Snapshot(10, [key("a", 3), key("b", 5), key("c", 8)]))
    assert view.replace(Snapshot(12, [key("a", 3), key("b", 5), key("c", 8)]))
    assert order(view) == ["b", "c"]


def test_a_forgotten_key_that_is_written_again_counts(view: QueueView) -> None:
    """Only the key of that create revision is gone: a later one of the same name stands last."""
    view.discard("a", 3)
    assert view.replace(Snapshot(12, [key("b", 5), key("c", 8), key("a", 12)]))
    assert order(view) == ["b", "c", "a"]


def test_a_forgotten_key_is_not_remembered_for_ever(view: QueueView) -> None:
    """The event of its deletion, or a list without it, is the end of it: a queue that is long in use does not grow."""
    view.discard("a", 3)
    view.apply([gone("a", 11)])
    assert view._discarded == {}
    view.discard("b", 5)
    assert view.replace(Snapshot(12, [key("c", 8)]))
    assert view._discarded == {}
