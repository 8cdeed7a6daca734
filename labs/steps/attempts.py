"""What a purchase has sent and been answered. An attempt that goes as the one before is in vain, and is forgotten."""

from __future__ import annotations

import random

MOST_IN_A_ROUND, ROUNDS = 4, 4  # commands that are sent again and again, without a pause, are attempts as well


class Attempts:
    """An attempt ends where the purchase pauses before it tries once more.

    Where it `forgets`, those in vain are forgotten, and with them what they have drawn from `chance`.
    """

    def __init__(self, *, forgets: bool, chance: random.Random | None) -> None:
        self._forgets, self._chance = forgets, chance
        self._states = [chance.getstate()] if chance else []  # of chance, where the last attempts began
        self._texts: list[list[str]] = [[]]
        self._next = ""  # what is about to be sent
        self.in_vain = False  # whether the last one was

    @property
    def texts(self) -> list[str]:
        return [text for attempt in self._texts for text in attempt]

    @property
    def begins(self) -> bool:
        """Whether it stands before an attempt, or what it is about to send may be another round of one."""
        attempt = self._texts[-1]
        sizes = range(2, min(len(attempt), 2 * MOST_IN_A_ROUND) + 1, 2)
        return not attempt or any(attempt[-size] == self._next for size in sizes)

    def before(self, command: str) -> None:
        """It is about to be sent: a round of commands that was made several times is in vain."""
        self._next = command
        if self._forgets and (size := _round(self._texts[-1], command)):
            del self._texts[-1][-size:]
            self.in_vain = True

    def add(self, text: str) -> None:
        """A command, or an answer to one."""
        self._texts[-1].append(text)

    def take_back(self) -> str:
        """The last command was not done."""
        return self._texts[-1].pop()

    def pause(self) -> None:
        """An attempt is over, if it has sent anything."""
        if not self._texts[-1] or not self._forgets:
            return
        in_vain = len(self._texts) > 1 and self._is_alike(self._texts[-1], self._texts[-2])
        if in_vain:
            self._texts.pop()
        self._texts.append([])
        self.in_vain |= in_vain
        if self._chance and in_vain:
            self._chance.setstate(self._states[-1])
        elif self._chance:
            self._states = [*self._states[-1:], self._chance.getstate()]

    def _is_alike(self, attempt: list[str], other: list[str]) -> bool:
        """Whether they differ by nothing but what each attempt draws anew."""
        has_drawn = self._chance is not None and self._chance.getstate() != self._states[-1]
        return attempt == other or (has_drawn and list(map(_shape, attempt)) == list(map(_shape, other)))


def _shape(text: str) -> str:
    """Of a command its name and the number of its words; of an answer all."""
    return text if text.startswith("> ") else f"{text.split(' ')[0]} {text.count(' ')}"


def _round(attempt: list[str], command: str) -> int:
    """How many of the last texts are one round too many of commands that are sent again and again; 0 if none is."""
    for size in range(2, 2 * MOST_IN_A_ROUND + 1, 2):
        last = attempt[-size * ROUNDS :]
        if len(last) == size * ROUNDS and last[0] == command and last == last[:size] * ROUNDS:
            return size
    return 0
