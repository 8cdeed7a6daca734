"""Names of locks."""

from __future__ import annotations

import pytest

from lock.errors import InvalidName, LockError
from lock.names import LONGEST, queue_prefix
from tests.support.waiting import assert_raises


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *[("", "name"), ("//", "write"), ("a/", "write 'a'"), ("a//b", "write 'a/b'"), ("/a/", "write '/a'")],
        *[("//a", "write '/a'"), ("/", "write '/f"), ("a/b/", "write 'a/b'")],
        *[(wrong, "name") for wrong in (None, b"a", 7, ["a"])],
    ],
)
def test_a_name_with_an_empty_part_is_refused(name: str, said: str) -> None:
    """`lock/` and `lock` would be different locks: the message names what was meant; and so is what is not text."""
    for error in (LockError, ValueError):
        assert_raises(error, queue_prefix, name, match=said)


@pytest.mark.parametrize("letter", ["a", "ö", "\udcff"])
def test_a_name_has_a_largest_size_in_bytes(letter: str) -> None:
    """A name of 4096 bytes is one; a longer one is refused, in a message that does not repeat all of it."""
    longest = letter * (LONGEST // len(letter.encode("utf-8", "surrogateescape")))
    assert queue_prefix(longest) == f"{longest}/"
    with pytest.raises(InvalidName, match="4096 are the most") as refusal:
        queue_prefix(longest + letter)
    assert len(str(refusal.value)) < 200
