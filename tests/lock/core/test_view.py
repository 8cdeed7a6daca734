"""QueueView: what the state machine does not tell of it, in lists and events of whatever age and order."""

from __future__ import annotations

import pytest

from lock.core.view import QueueView
from lock.model import Event, KeyValue, Snapshot


def key(name: str, created: int, modified: int | None = None) -> KeyValue:
    return KeyValue(name, b"", created, modified or created, 1)


def gone(name: str, revision: int) -> Event:
    """The event of a key that is deleted, as etcd tells it: no more than name and revision."""
    return Event(True, KeyValue(name, b"", 0, revision, 0))


def order(view: QueueView) -> str:
    head = view.head()
    names = [kv.key for kv in view.in_order()]
    assert (head and [head.key]) == (names[:1] or None)
    return "".join(names)


A, B, C = key("a", 3), key("b", 5), key("c", 8)


@pytest.fixture
def view() -> QueueView:
    """As of revision 10: a holds, b and c wait."""
    view = QueueView()
    assert view.replace(Snapshot(10, [A, B, C]))
    assert order(view) == "abc"
    return view


def test_before_the_first_list_events_are_dropped() -> None:
    """They do not tell who stood there before."""
    view = QueueView()
    view.apply([Event(False, key("b", 5))])
    assert (order(view), view.revision) == ("", 0)


def test_a_key_knows_its_values_and_its_place(view: QueueView) -> None:
    """An overwritten one shows its latest revision; of one that is not there nothing is known."""
    view.apply([Event(False, key("a", 3, 11))])
    assert view.head() == key("a", 3, 11)
    assert (view.create_revision("c"), view.create_revision("e")) == (8, None)


def test_a_list_older_than_what_was_known_is_of_a_restored_etcd(view: QueueView) -> None:
    """It replaces the view; one that was asked for before the view knew more does not."""
    assert not view.replace(Snapshot(9, []), known=9)
    assert (order(view), view.revision) == ("abc", 10)
    assert view.replace(Snapshot(9, [B]), known=10)
    assert (order(view), view.revision) == ("b", 9)


def test_only_the_very_key_is_forgotten(view: QueueView) -> None:
    """A key of the same name with another create revision is another key: before, and when it is written again."""
    view.discard("a", 2)
    view.discard("x", 3)
    assert order(view) == "abc"
    view.discard("a", 3)
    assert view.replace(Snapshot(12, [B, C, key("a", 12)]))
    assert order(view) == "bca"


def test_a_forgotten_key_is_not_remembered_for_ever(view: QueueView) -> None:
    """The event of its deletion, or a list without it, is the end of it: a queue that is long in use does not grow."""
    view.discard("a", 3)
    view.apply([gone("a", 11)])
    assert view._discarded == {}
    view.discard("b", 5)
    assert view.replace(Snapshot(12, [C]))
    assert view._discarded == {}


def test_a_key_that_was_overwritten_before_it_was_let_go_does_not_come_back(view: QueueView) -> None:
    """The event of the overwriting may be told after the hold is over: a reader that was a writer, for example."""
    view.discard("a", 3)
    view.apply([Event(False, key("a", 3, 11))])
    assert (order(view), view.revision) == ("bc", 11)
    view.apply([gone("a", 12), Event(False, key("a", 13))])
    assert (order(view), view.revision) == ("bca", 13)
