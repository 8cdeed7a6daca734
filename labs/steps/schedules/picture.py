"""The picture of a state: what two states have in common whose futures are the same.

It has the servers' keys and, of each purchase, its place, what it has sent and been answered, and whether it waits, is
frozen, dead or over. Names that each run makes anew are told by their order of appearance, tokens by their order, and
times not at all, but for those that are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

Part = str | Set[str]  # a text, or texts whose order is chance
_LARGEST = 10**9  # a larger number is a time or a lease
SMALLEST = 100  # a smaller number is neither a token nor the id of a process
_VARIES = re.compile(  # a number that begins with 0 is a fence, and no time
    r"(?P<time>(?<!\d)(?!0\d)(?:\d{9,}\.\d+|\d+\.\d{3,})(?:e\+?\d+)?|\d{4}-\d\d-\d\dT[\d:.+Z]+)"
    r"|(?P<id>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?=\d*[a-f])[0-9a-f]{12,})"
    r"|(?P<number>\d{3,})"
)
_MAY_BE_A_NAME = re.compile(  # the id of an order or of a purchase, a lease, a process, an instance
    r"(?<![0-9A-Za-z])(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{3,}|shop-\d+)(?![0-9A-Za-z])"
)


class Namer:
    """Tells what is named anew in each run by what it is in all of them.

    Args:
        parts: the texts of a picture; those of the picture.
        names: those that are known, and what they are called instead.
        revisions: of etcd in this run; they are tokens.
        clocked: more parts, whose times are told by their order, as they may decide something.

    Attributes:
        others: the numbers that are none.
    """

    def __init__(
        self, parts: Sequence[Part], names: Mapping[str, str], revisions: range, clocked: Sequence[Part] = ()
    ) -> None:
        self._names = names
        self._parts, self._clocked = (list(map(self._renamed_in, each)) for each in (parts, clocked))
        text = "\n".join(map(_text, [*self._parts, *self._clocked]))
        numbers = {int(found["number"]) for found in _VARIES.finditer(text) if found["number"]}
        self.tokens = rank(number for number in numbers if number in revisions)
        self.others = {number for number in numbers if SMALLEST <= number < _LARGEST and number not in self.tokens}
        times = [found for part in self._clocked for found in _VARIES.finditer(_text(part)) if _is_time(found)]
        self._moments = sorted({_moment(found) for found in times})
        self._ids: dict[str, int] = {}

    def picture(self) -> str:
        """The parts as they are in each run that led to the same state."""
        return "\n".join([*(self._same(part, self._told) for part in self._parts),
                          *(self._same(part, self._told_clocked) for part in self._clocked)])  # fmt: skip

    def _same(self, part: Part, told: Callable[[re.Match[str]], str]) -> str:
        if isinstance(part, str):
            return _VARIES.sub(told, part)
        return "\n".join(sorted(_VARIES.sub(told, text) for text in sorted(part, key=self._with_known_ids)))

    def _with_known_ids(self, text: str) -> str:
        """Without those that are not named yet: what is named first of a set is not to be chance."""
        return _VARIES.sub(lambda found: f"id-{self._ids.get(found['id'], 0)}" if found["id"] else "#", text)

    def shown(self, text: str) -> str:
        """A text that people read, with tokens by their order."""
        return _VARIES.sub(
            lambda found: self._told(found).removeprefix("T") if found["number"] else self._told(found),
            self._renamed(text),
        )

    def _renamed(self, text: str) -> str:
        return _MAY_BE_A_NAME.sub(lambda found: self._names.get(found[0], found[0]), text)

    def _renamed_in(self, part: Part) -> Part:
        return self._renamed(part) if isinstance(part, str) else {self._renamed(text) for text in part}

    def _told_clocked(self, found: re.Match[str]) -> str:
        return f"(time {self._moments.index(_moment(found)) + 1})" if _is_time(found) else self._told(found)

    def _told(self, found: re.Match[str]) -> str:
        if _is_time(found):
            return "(time)"
        if name := found["id"]:
            return f"id-{self._ids.setdefault(name, len(self._ids) + 1)}"
        number = int(found["number"])
        return f"T{self.tokens[number]}" if number in self.tokens else str(number)


def _is_time(found: re.Match[str]) -> bool:
    return bool(found["time"]) or (bool(found["number"]) and int(found["number"]) >= _LARGEST)


def _moment(found: re.Match[str]) -> float:
    return 0.0 if "T" in found[0] else float(found[0])  # a date is never compared


def _text(part: Part) -> str:
    return part if isinstance(part, str) else "\n".join(part)


def rank(numbers: Iterable[int]) -> dict[int, int]:
    """The place of each in their order, from 1."""
    return {number: place for place, number in enumerate(sorted(set(numbers)), 1)}
