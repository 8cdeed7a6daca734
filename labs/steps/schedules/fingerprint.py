"""The fingerprint of a state: two states with the same one have the same futures, and are judged alike.

It has the servers' keys, the files and, of each purchase, its place, what it has sent and been answered, and whether it
waits, is frozen, dead or over. Chance and clocks of purchases repeat themselves, so little is new in a run: processes,
threads, leases and revisions, which have canonical names, and times of the servers, which are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set

from labs.steps.schedules.instances import NOW

Part = str | Set[str]  # a text, or texts whose order is chance
SMALLEST = 100  # a smaller number is neither a token nor the id of a process
_PARTS = ("\\n", "'", '"')  # between the commands and answers of a purchase
LONGEST = 120  # of what is shown of a difference
_DAY_S = 86400.0
_VARIES = re.compile(  # a number that begins with 0 is a fence, and no time
    r"(?<![0-9A-Za-z])(?P<name>shop-\d+|[0-9a-f]{3,})(?![0-9A-Za-z.])"
    r"|(?P<time>(?<!\d)(?!0\d)\d{9,}(?:\.\d+)?|\d{4}-\d\d-\d\dT[\d:.+Z]+)"
    r"|(?P<number>\d{3,})"
)


class CanonicalNames:
    """Tells what is named anew in each run by what it is in all of them, in the `parts` of a fingerprint.

    `names` are those that are known, and what they are called instead; etcd's `revisions` in this run are tokens.
    """

    def __init__(self, parts: Sequence[Part], names: Mapping[str, str], revisions: range) -> None:
        self._names, self._parts = names, parts
        text = "\n".join(part if isinstance(part, str) else "\n".join(part) for part in parts)
        numbers = {int(found[0]) for found in _VARIES.finditer(text) if found[0].isdigit() and found[0] not in names}
        tokens = sorted(number for number in numbers if number in revisions)
        self._tokens = {number: place for place, number in enumerate(tokens, 1)}
        # The numbers that are none.
        self.others = {number for number in numbers if number >= SMALLEST and number not in self._tokens}

    def fingerprint(self) -> str:
        """The parts as they are in each run that led to the same state."""
        return "\n".join(self._same(part) for part in self._parts)

    def _same(self, part: Part) -> str:
        return self._in(part) if isinstance(part, str) else "\n".join(sorted(map(self._in, part)))

    def _in(self, text: str, token: Callable[[int], str] = "T{}".format) -> str:
        def told(found: re.Match[str]) -> str:
            if found[0] in self._names:
                return self._names[found[0]]
            if found[0].isdigit() and int(found[0]) in self._tokens:
                return token(self._tokens[int(found[0])])
            return "(time)" if _is_now(found[0]) else found[0]

        return _VARIES.sub(told, text)

    def shown(self, text: str) -> str:
        """A text that people read, with tokens by their order."""
        return self._in(text, str)


def _is_now(text: str) -> bool:
    """Whether it is a time of these days, in whatever unit."""
    try:
        number = float(text)
    except ValueError:
        return "T" in text
    return any(abs(number / unit - NOW) < _DAY_S for unit in (1, 1e3, 1e6, 1e9))


INSTEAD = (
    "Draw chance from random, secrets, uuid or os.urandom, and take times from time or datetime: those repeat "
    "themselves. Threads of a purchase have to wait for each other before one of them sends its next command."
)


def difference(one: str, other: str) -> str:
    """In what two fingerprints differ first, and what a guard should use instead."""
    lines = [each.splitlines() for each in (one, other)]
    place = next((place for place, pair in enumerate(zip(*lines, strict=False)) if pair[0] != pair[1]), -1)
    mine, theirs = (each[place] for each in lines)
    at = next((at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))
    parts = [_around(line, at) for line in (mine, theirs)]
    differs = "it stands or waits elsewhere" if parts[0].startswith(", ") else "{!r} in one, {!r} in the other"
    return f"{_whose([theirs, *lines[0][place::-1]])}: {differs.format(*parts)}. {INSTEAD}"


def _whose(lines: Sequence[str]) -> str:
    """The purchase, key or file that is told of first in these lines."""
    if buyer := re.match(r"\('(\w)', ", lines[0]):
        return f"purchase {buyer[1]}"
    heads = (line for line in lines if line.startswith(("redis ", "etcd ", "file ")))
    return next((head.partition(", ")[0].partition(": ")[0] for head in heads), "the order of the purchases")


def _around(line: str, at: int) -> str:
    """The part of a line in which this place is: a command, an answer or a value."""
    begin = max((line.rfind(mark, 0, at) + len(mark) for mark in _PARTS if mark in line[:at]), default=0)
    ends = [end for mark in _PARTS if (end := line.find(mark, at)) >= 0]
    return line[begin : min(ends, default=len(line))][:LONGEST]
