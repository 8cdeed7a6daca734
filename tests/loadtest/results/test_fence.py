"""The fence: a write that lands after a read under a higher token is found, and no overlap alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
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


LATE, READER = section("a", 1, read=1, write=9), section("b", 2, read=5, write=7)
FOUND = [("a", "b")]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param(LATE, READER, FOUND, id="A reads under 1, B reads under 2, and then A's write lands"),
        pytest.param(section("a", 1, read=1, write=3), READER, [], id="A is frozen after its write"),
        pytest.param(replace(LATE, outcome="lock_lost"), READER, [], id="A's write was refused"),
        pytest.param(replace(LATE, cause="replayed"), READER, [], id="A was given an older answer"),
        pytest.param(section("a", 1, read=1, write=None), READER, [], id="A wrote nothing"),
        pytest.param(LATE, section("b", 2, read=None, write=5), FOUND, id="a script reads when it writes"),
        pytest.param(
            LATE, section("b", 2, read=None, write=5, outcome="unavailable"), [], id="one without answer may not have"
        ),
        pytest.param(LATE, replace(READER, item="2"), [], id="another item has another fence"),
        pytest.param(replace(LATE, token=[7, 2]), replace(READER, token=[7, 10]), FOUND, id="turns are ranked"),
        pytest.param(replace(LATE, token=None), replace(READER, token=None), [], id="no token, no fence"),
    ],
)
def test_a_write_that_lands_after_a_read_under_a_higher_token_is_found(
    first: CriticalSection, second: CriticalSection, expected: list[tuple[str, str]]
) -> None:
    """The read should have shut it out; only a write that sold counts."""
    assert found(first, second) == expected


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
