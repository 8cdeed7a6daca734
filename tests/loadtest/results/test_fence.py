"""The fence: a write that lands after a read under a higher token is found, and no overlap alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.contract.orders import Token
from loadtest.results.fence import past_fence
from loadtest.results.record import CriticalSection, Point
from tests.loadtest.results.test_audit import section as section_of_audit


def section(
    buyer: str, token: Token | None, *, read: float | None, write: float | None, **changes: object
) -> CriticalSection:
    """A section in which the stock was known at `read` and the write sent at `write`; a script has no `read`."""
    name, at_ms = ("read", read) if read is not None else ("wrote", None if write is None else write + 1)
    points = () if at_ms is None else (Point(name, 1, at_ms),)
    told = {"buyer": buyer, "token": token, "read_ms": read, "commit_ms": write, "points": points}
    return section_of_audit(0, 0.0, 100.0, **told, **changes)


def found(*sections: CriticalSection) -> list[tuple[str, str]]:
    return [(each.write.buyer, each.read.buyer) for each in past_fence(sections)]


def test_a_late_write_is_found() -> None:
    """A reads under 1, B reads under 2, and then A's write lands: B's read should have shut it out."""
    assert found(section("a", 1, read=1, write=9), section("b", 2, read=5, write=7)) == [("a", "b")]
    (each,) = past_fence([section("a", 1, read=1, write=9), section("b", 2, read=5, write=None, outcome=None)])
    assert (each.sent_ms, each.read_ms) == (9, 5)


def test_a_holder_frozen_after_its_write_is_right() -> None:
    """Both are inside at once, and A's write was sent before B's read was answered."""
    assert found(section("a", 1, read=1, write=3), section("b", 2, read=5, write=7)) == []


def test_only_a_write_that_sold_counts() -> None:
    """A refused write, and the answer to an idempotency key, changed nothing."""
    reader = section("b", 2, read=5, write=7)
    assert found(section("a", 1, read=1, write=9, outcome="lock_lost"), reader) == []
    assert found(section("a", 1, read=1, write=9, cause="replayed"), reader) == []
    assert found(section("a", 1, read=1, write=None), reader) == []


def test_a_script_reads_when_it_writes() -> None:
    """Its answer shuts out lower tokens; a script whose answer was lost may not have run."""
    assert found(section("a", 1, read=1, write=9), section("b", 2, read=None, write=5)) == [("a", "b")]
    assert found(section("a", 1, read=1, write=9), section("b", 2, read=None, write=5, outcome="unavailable")) == []


def test_tokens_are_of_an_item_and_turns_are_ranked() -> None:
    """Another item has another fence; a turn is higher than the turns before it; no token, no fence."""
    assert found(section("a", 1, read=1, write=9), section("b", 2, read=5, write=7, item="2")) == []
    assert found(section("a", [7, 2], read=1, write=9), section("b", [7, 10], read=5, write=7)) == [("a", "b")]
    assert found(section("a", None, read=1, write=9), section("b", None, read=5, write=7)) == []


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 20), st.integers(0, 20)), max_size=10))
def test_the_late_writes_are_those_of_all_pairs(made: list[tuple[int, int, int]]) -> None:
    """One pass finds each write with a higher token read before it."""
    sections = [section(str(n), token, read=min(a, b), write=max(a, b)) for n, (token, a, b) in enumerate(made)]
    late = [
        write.buyer
        for write in sections
        if any(read.token > write.token and read.read_ms < write.commit_ms for read in sections)  # type: ignore[operator]
    ]
    assert sorted(buyer for buyer, _ in found(*sections)) == sorted(late)
