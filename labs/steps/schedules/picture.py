"""The picture of a state: what two states have in common whose futures are the same.

It has the servers' keys and, of each purchase, its place, what it has sent and been answered, and whether it waits, is
frozen, dead or over. Names that each run makes anew are told by their order of appearance, tokens by their order, and
times not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set

_LARGEST = 10**9  # a larger number is a time or a lease
SMALLEST = 100  # a smaller number is neither a token nor the id of a process
_VARIES = re.compile(
    r"(?P<time>(?<!\d)(?!0\d)(?:\d{9,}\.\d+|\d+\.\d{3,})|\d{4}-\d\d-\d\dT[\d:.+Z]+)"  # no fence, which begins with 0
    r"|(?P<id>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?=\d*[a-f])[0-9a-f]{12,})"
    r"|(?P<number>\d{3,})"
)


class Namer:
    """Tells what is named anew in each run by what it is in all of them.

    Args:
        parts: the texts of a picture; of those that are a set, the order is chance.
        names: those that are known, and what they are called instead.
        revisions: of etcd in this run; they are tokens.

    Attributes:
        others: the numbers that are none.
    """

    def __init__(self, parts: Sequence[str | Set[str]], names: Mapping[str, str], revisions: range) -> None:
        self._names = names
        longest_first = sorted(map(re.escape, names), key=len, reverse=True)
        self._named = re.compile(rf"(?<![0-9A-Za-z])(?:{'|'.join(longest_first) or '(?!)'})(?![0-9A-Za-z])")
        self._parts = [
            self._renamed(part) if isinstance(part, str) else {self._renamed(text) for text in part} for part in parts
        ]
        text = "\n".join(part if isinstance(part, str) else "\n".join(part) for part in self._parts)
        numbers = {int(found["number"]) for found in _VARIES.finditer(text) if found["number"]}
        self.tokens = rank(number for number in numbers if number in revisions)
        self.others = {number for number in numbers if SMALLEST <= number < _LARGEST and number not in self.tokens}
        self._ids: dict[str, int] = {}

    def picture(self) -> str:
        """The parts as they are in each run that led to the same state."""
        return "\n".join(
            self._same(part) if isinstance(part, str) else "\n".join(sorted(map(self._same, part)))
            for part in self._parts
        )

    def _same(self, text: str) -> str:
        return _VARIES.sub(self._told, text)

    def shown(self, text: str) -> str:
        """A text that people read, with tokens by their order."""
        return _VARIES.sub(
            lambda found: self._told(found).removeprefix("T") if found["number"] else self._told(found),
            self._renamed(text),
        )

    def _renamed(self, text: str) -> str:
        return self._named.sub(lambda found: self._names[found[0]], text)

    def _told(self, found: re.Match[str]) -> str:
        if found["time"]:
            return "(time)"
        if name := found["id"]:
            return f"id-{self._ids.setdefault(name, len(self._ids) + 1)}"
        number = int(found["number"])
        if number >= _LARGEST:
            return "(time)"
        return f"T{self.tokens[number]}" if number in self.tokens else str(number)


def rank(numbers: Iterable[int]) -> dict[int, int]:
    """The place of each in their order, from 1."""
    return {number: place for place, number in enumerate(sorted(set(numbers)), 1)}
