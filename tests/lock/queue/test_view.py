"""QueueView: a pure state machine, fed by lists and events of whatever age and order."""

from __future__ import annotations

import pytest

from lock.model import Event, KeyValue, Snapshot
from lock.queue.view import QueueView


def key(name: str, created: int, modified: int | None = None) -> KeyValue:
    """A key in a queue."""
    return KeyValue(name, b"", created, modified or created, 1)


def put(name: str, created: int, modified: int | None = None) -> Event:
    """The event of a key that is written."""
    return Event(False, key(name, created, modified))


def gone(name: str, revision: int) -> Event:
    """The event of a key that is deleted, as etcd tells it: no more than name and revision."""
    return Event(True, KeyValue(name, b"", 0, revision, 0))


def order(view: QueueView) -> str:
    """The names in the queue, holder first."""
    head = view.head()
    names = [kv.key for kv in view.in_order()]
    assert (head and [head.key], len(view)) == (names[:1] or None, len(names))
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
    view.apply([put("b", 5)])
    assert (order(view), view.revision) == ("", 0)


@pytest.mark.parametrize(
    ("events", "expected", "revision"),
    [
        pytest.param([gone("a", 11)], "bc", 11, id="the head leaves"),
        pytest.param([gone("b", 11)], "ac", 11, id="one in the middle leaves"),
        pytest.param([put("d", 11)], "abcd", 11, id="a newcomer stands last"),
        pytest.param([put("a", 3, 11)], "abc", 11, id="an overwritten key keeps its place"),
        pytest.param([put("a", 11)], "bca", 11, id="a key written again is new, even if its DELETE was never told"),
        pytest.param([put("x", 9), gone("c", 10)], "abc", 10, id="the list has seen what is older"),
        pytest.param([gone("a", 11), gone("c", 11)], "b", 11, id="a lease that ends deletes several in one revision"),
    ],
)
def test_events_change_the_queue(view: QueueView, events: list[Event], expected: str, revision: int) -> None:
    """Each event newer than the view counts, in the order told; told again they change nothing."""
    for _ in range(2):
        view.apply(events)
        assert (order(view), view.revision) == (expected, revision)


def test_a_key_knows_its_values_and_its_place(view: QueueView) -> None:
    """An overwritten one shows its latest revision; of one that is not there nothing is known."""
    view.apply([put("a", 3, 11)])
    assert view.head() == key("a", 3, 11)
    assert (view.create_revision("c"), view.create_revision("e")) == (8, None)


def test_late_events_bring_back_no_key(view: QueueView) -> None:
    """Also where they are told again after the key's own deletion."""
    for events in ([put("d", 11), gone("a", 12)], [gone("d", 13)], [put("d", 11), gone("a", 12)]):
        view.apply(events)
    assert (order(view), view.revision) == ("bc", 13)


@pytest.mark.parametrize(
    ("snapshot", "known", "expected"),
    [
        pytest.param(Snapshot(9, []), 9, None, id="asked for before the view knew more"),
        pytest.param(Snapshot(9, [A, B]), 0, None, id="under way for long"),
        pytest.param(Snapshot(9, [B]), 10, "b", id="older than what was known when it was asked for: a restored etcd"),
        pytest.param(Snapshot(10, [A, C]), 0, "ac", id="of the same revision, it heals what was lost before"),
        pytest.param(Snapshot(20, [C, key("d", 15)]), 0, "cd", id="newer"),
        pytest.param(Snapshot(11, []), 0, "", id="empty"),
    ],
)
def test_a_list_replaces_an_older_view(view: QueueView, snapshot: Snapshot, known: int, expected: str | None) -> None:
    """A list is the truth of its revision."""
    assert view.replace(snapshot, known=known) is (expected is not None)
    assert order(view) == ("abc" if expected is None else expected)
    assert view.revision == (10 if expected is None else snapshot.revision)


def test_a_key_of_ours_is_forgotten_ahead_of_its_event(view: QueueView) -> None:
    """discard: the next one is head at once, and neither its event nor an older list brings it back."""
    view.discard("a", 3)
    assert order(view) == "bc"
    for revision in (10, 12):
        assert view.replace(Snapshot(revision, [A, B, C]))
        assert order(view) == "bc"
    view.apply([gone("a", 13)])
    assert order(view) == "bc"


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
    view.apply([put("a", 3, 11)])
    assert (order(view), view.revision) == ("bc", 11)
    view.apply([gone("a", 12), put("a", 13)])
    assert (order(view), view.revision) == ("bca", 13)
