"""Names of locks: those whose queue would be another than it seems are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lock.errors import InvalidName, LockError
from lock.queue.names import LONGEST, queue_prefix
from tests.support.lock import assert_raises


@pytest.mark.parametrize(
    "name", ["a", "a/b", "flash-sale/stock", "/a", "/registry/locks/a", "ein name", "größe", "a.b", "-"]
)
def test_the_queue_of_a_name_is_below_it(name: str) -> None:
    """A good name's queue is the prefix NAME/, as in Go's client."""
    assert queue_prefix(name) == f"{name}/"


@pytest.mark.parametrize("name", ["", "/", "//", "a/", "a//b", "//a", "a/b/", "/a/"])
def test_a_name_with_an_empty_part_is_refused(name: str) -> None:
    """`lock/` and `lock` would be different locks, and `a//b` a surprise."""
    assert_raises(InvalidName, queue_prefix, name)


@pytest.mark.parametrize(
    ("name", "meant"), [("a/", "'a'"), ("a//b", "'a/b'"), ("/a/", "'/a'"), ("//a", "'/a'"), ("/", "'/f")]
)
def test_the_refusal_says_what_to_write(name: str, meant: str) -> None:
    """The message names the name that was probably meant."""
    assert_raises(InvalidName, queue_prefix, name, match=f"write {meant}")


@pytest.mark.parametrize("name", [None, b"a", 7, ["a"]])
def test_what_is_not_text_is_refused(name: object) -> None:
    """A name is a str: bytes and None are no names."""
    with pytest.raises(InvalidName):
        queue_prefix(name)  # type: ignore[arg-type]


def test_what_cannot_be_encoded_is_refused() -> None:
    """Half a surrogate pair cannot be written to etcd: refused here, not by a thread that follows the queue."""
    assert_raises(InvalidName, queue_prefix, "a/\ud800", match="cannot be encoded")


@pytest.mark.parametrize("letter", ["a", "ö", "\udcff"])
def test_a_name_has_a_largest_size_in_bytes(letter: str) -> None:
    """A name of 4096 bytes is one; a longer one is refused, in a message that does not repeat all of it."""
    longest = letter * (LONGEST // len(letter.encode("utf-8", "surrogateescape")))
    assert queue_prefix(longest) == f"{longest}/"
    with pytest.raises(InvalidName, match="4096 are the most") as refusal:
        queue_prefix(longest + letter)
    assert len(str(refusal.value)) < 200


def test_bytes_of_the_command_line_are_a_name() -> None:
    """Python turns bytes that are no UTF-8 into surrogates; etcd takes the bytes, and etcdctl takes them too."""
    assert queue_prefix("a/\udcff") == "a/\udcff/"


def test_a_refusal_is_a_lock_error_and_a_value_error() -> None:
    """InvalidName can be caught as either."""
    assert issubclass(InvalidName, LockError)
    assert issubclass(InvalidName, ValueError)


@given(st.lists(st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_every_name_of_parts_that_are_not_empty_is_good(parts: list[str]) -> None:
    """Whatever text stands between the slashes, the queue is NAME/ and can be written as UTF-8."""
    assert queue_prefix("/".join(parts)).encode() == "/".join([*parts, ""]).encode()
