"""The picture of a state: what two states have in common whose futures are the same.

It has the servers' keys and, of each purchase, its place, what it has sent and been answered, and whether it waits, is
frozen, dead or over. Names that each run makes anew are told by their order of appearance, tokens by their order, and
times not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_LARGEST = 10**9  # a larger number is a time or a lease
RUN = 500  # so many revisions of etcd at most are made in a run
_VARIES = re.compile(
    r"(?P<time>\d{9,}\.\d+|\d+\.\d{3,}|\d{4}-\d\d-\d\dT[\d:.+Z]+)"
    r"|(?P<id>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?=\d*[a-f])[0-9a-f]{12,})"
    r"|(?P<number>\d{3,})"
)


def canonical(text: str, names: Mapping[str, str], first_revision: int) -> str:
    """The same text for each run that led to the same state.

    Args:
        text: all of the picture.
        names: those that are known, and what they are called instead.
        first_revision: etcd's when the run began; a number from there on is a token.
    """
    for old, new in sorted(names.items(), key=lambda name: -len(name[0])):
        text = re.sub(rf"(?<![0-9A-Za-z]){re.escape(old)}(?![0-9A-Za-z])", new, text)
    numbers = (int(found["number"]) for found in _VARIES.finditer(text) if found["number"])
    tokens = rank(number for number in numbers if first_revision <= number < first_revision + RUN)
    ids: dict[str, int] = {}

    def renamed(found: re.Match[str]) -> str:
        if found["time"]:
            return "TIME"
        if name := found["id"]:
            return f"ID{ids.setdefault(name, len(ids) + 1)}"
        number = int(found["number"])
        if number >= _LARGEST:
            return "TIME"
        return f"T{tokens[number]}" if number in tokens else str(number)

    return _VARIES.sub(renamed, text)


def rank(numbers: Iterable[int]) -> dict[int, int]:
    """The place of each in their order, from 1."""
    return {number: place for place, number in enumerate(sorted(set(numbers)), 1)}

