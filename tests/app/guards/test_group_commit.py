"""The line in which purchases wait to be committed together: who leads, who is taken, and what each is told."""

from __future__ import annotations

import threading

import pytest

from app.guards.group_commit import Line, Member
from app.sales.purchase import Purchase


def joined(line: Line, *buyers: str) -> list[Member]:
    """A member for each buyer, in this order."""
    members = [Member(Purchase(buyer, "etcd-batch"), timeout=20) for buyer in buyers]
    for member in members:
        line.join(member)
    return members


def test_the_first_in_line_leads() -> None:
    """Whoever is taken out or steps out, the next one leads, and nobody besides."""
    line = Line()
    ada, bob, cleo, dan = joined(line, "ada", "bob", "cleo", "dan")
    assert [member.leads for member in (ada, bob, cleo, dan)] == [True, False, False, False]
    assert line.take(2) == [ada, bob]
    assert (cleo.leads, dan.leads) == (True, False)
    assert line.leave(cleo)
    assert dan.leads
    assert not line.leave(ada)
    assert line.take(2) == [dan]
    assert line.take(2) == []


def test_a_member_waits_to_lead_or_to_be_settled() -> None:
    """Nobody waits for longer than his time and what he was told to add to it."""
    line = Line()
    ada, bob = joined(line, "ada", "bob")
    late = Member(Purchase("cleo", "etcd-batch"), timeout=0)
    assert ada.wait(0)
    assert (late.wait(0), late.remaining()) == (False, 0.0)
    line.dissolve(TimeoutError("nobody can have the lock"))
    assert bob.wait(0)
    for member in (ada, bob):
        with pytest.raises(TimeoutError, match="nobody can have"):
            member.result()


def test_a_result_is_waited_for() -> None:
    """A member that was taken out asks before its group is committed."""
    line = Line()
    _, bob = joined(line, "ada", "bob")
    line.take(2)
    commit = threading.Timer(0.1, bob.settle, [TimeoutError("this one")])
    commit.start()
    with pytest.raises(TimeoutError, match="this one"):
        bob.result()
    commit.join()
