"""QueueView: what the state machine does not tell of it, in lists and events of whatever age and order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from lock.core.admission import EXCLUSIVE, Admission
from lock.core.view import QueueView
from lock.model import Event, KeyValue, Snapshot
from tests.lock.core.tickets import deleted
from tests.lock.core.worlds import PERMIT, READ, THREE, WRITE

PERMITS, READERS = PERMIT.terms.rule, READ.terms.rule


@dataclass(frozen=True)
class Declared(Admission):
    """Keys of different kinds hold together."""

    def admits(self, kind: str, ahead: Mapping[str, int]) -> bool:
        return kind not in ahead


VALUES = {"x": b"", "r": READ.value, "w": WRITE.value, "p": PERMIT.value, "t": THREE.value}


def key(name: str, created: int, modified: int | None = None, value: bytes = b"") -> KeyValue:
    return KeyValue(name, value, created, modified or created, 1)


def order(view: QueueView) -> str:
    head = view.head()
    names = [kv.key for kv in view._keys.values()]
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


def test_what_is_being_deleted_counts_no_more() -> None:
    """Until it is gone; another key of its name counts."""
    view = QueueView({"a": 3, "b": 4})
    assert view.replace(Snapshot(10, [A, B, C]))
    assert order(view) == "bc"


def test_before_the_first_list_events_are_dropped() -> None:
    """They do not tell who stood there before."""
    view = QueueView()
    view.apply([Event(False, key("b", 5))])
    assert (order(view), view.revision) == ("", 0)


@pytest.mark.parametrize(
    ("change", "there", "revision"),
    [
        (lambda view: view.apply([deleted("b", 9), deleted("c", 10), Event(False, key("d", 7))]), "abc", 10),  # known
        (lambda view: view.replace(Snapshot(9, []), known=9), "abc", 10),  # asked for before the view knew more
        (lambda view: view.replace(Snapshot(9, [B]), known=10), "b", 9),  # of an etcd that was restored
        (lambda view: (view.discard("a", 4), view.discard("z", 3)), "abc", 10),  # another key of its name, and none
        (lambda view: (view.discard("a", 3), view.replace(Snapshot(12, [A, B, C]))), "bc", 12),
        # Overwritten before it was let go, as by a writer that goes on as a reader.
        (lambda view: (view.discard("a", 3), view.apply([Event(False, key("a", 3, 11))])), "bc", 11),
        (lambda view: (view.discard("a", 3), view.apply([deleted("a", 12), Event(False, key("a", 13))])), "bca", 13),
    ],
)
def test_neither_old_news_nor_a_forgotten_key_counts(
    view: QueueView, change: Callable[[QueueView], object], there: str, revision: int
) -> None:
    """A list is told ahead of events, and replaces the view if it is of a restored etcd."""
    change(view)
    assert (order(view), view.revision) == (there, revision)


def test_a_forgotten_key_is_not_remembered_for_ever(view: QueueView) -> None:
    """The event of its deletion, or a list without it, is the end of it: a queue that is long in use does not grow."""
    view.discard("a", 3)
    view.apply([deleted("a", 11)])
    assert view._discarded == {}
    view.discard("b", 5)
    assert view.replace(Snapshot(12, [C]))
    assert view._discarded == {}


@pytest.mark.parametrize(
    ("rule", "steps"),
    [
        pytest.param(EXCLUSIVE, "+ax a; +br; +cx; -b; -a c; -c", id="one after the other, whatever they are"),
        pytest.param(READERS, "+ar a; +br b; +cw; +dr; -a; -b c; -c d", id="readers together, a writer alone"),
        pytest.param(READERS, "+aw a; +br; +cr; +ar bc; +dx; -b; -c; -a d", id="a writer that reads from now on"),
        pytest.param(READERS, "+aw a; +bw; +cr; +br; -a bc; -c; -b", id="a waiter that reads from now on"),
        pytest.param(READERS, "+ax a; +br; +cx; -z; -c; -a b", id="an unknown key holds alone"),
        pytest.param(READERS, "+aw a; +ar; +br b; -a; +cr c", id="a writer that reads leaves as a reader"),
        pytest.param(PERMITS, "+ap a; +ap; +bp b; +cp; +dp; -b c; -a d; +ep; -d e", id="two permits"),
        pytest.param(Declared(), "+ar a; +bw b; +cr; -a c; +dx; -b; -c d", id="of two kinds, as keys declare them"),
        pytest.param(PERMITS, "+ap a; +bt; +cp; -a b; -b c", id="permits of another limit exclude these"),
    ],
)  # fmt: skip
def test_a_rule_lets_the_first_keys_in(rule: Admission, steps: str) -> None:
    """By each change (+KEY KIND, -KEY) who holds from then on is told once; all others wait."""
    view, revision, holds = QueueView(), 1, list[str]()
    view.replace(Snapshot(revision, []))
    view.follow(rule)
    assert view.conflicts() == {}
    for step in steps.split("; "):
        change, _, admitted = step.partition(" ")
        revision, name = revision + 1, change[1]
        if change[0] == "+":
            created = view.create_revision(name) or revision
            view.apply([Event(False, key(name, created, revision, VALUES[change[2]]))])
        else:
            view.apply([deleted(name, revision)])
        view.follow(rule)  # once more, which tells nothing anew
        assert view.advance() == [(rule, each) for each in admitted], step
        there = order(view)
        holds = [each for each in [*holds, *admitted] if each in there]
        assert [each for each in there if view.admits(rule, each)] == sorted(holds), step
        assert view.has_waiters(rule) is (len(there) > len(holds)), step
