"""A schedule that ends wrongly, told to the author of the guard: who did what, in the guard's own lines."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from labs.steps.schedules.graph import Graph
from labs.steps.schedules.schedule import Done, Ending, hides_behind_lost_answer
from labs.steps.schedules.screen import TEXTS, sentence_of
from labs.steps.stepped import COMMANDS


@dataclass(frozen=True)
class Story:
    """One schedule."""

    kinds: frozenset[str]  # the ways in which it ends wrongly
    items: int  # for sale
    length: int  # of its moves
    text: str  # what the author reads

    @classmethod
    def shortest(cls, graph: Graph, name: str, path: Path, items: int) -> list[Story]:
        """The shortest schedule for each set of ways in which those of a graph end wrongly."""
        found: dict[frozenset[str], Story] = {}
        for end, moves in graph.nearest_first():
            if end.is_wrong and end.ending is not None:
                kinds = frozenset(end.ending.kinds) - {"wrong"}
                if kinds not in found:
                    text = "\n".join(_lines(moves, end.ending, name, path, items))
                    found[kinds] = cls(kinds, items, len(moves), text)
        return list(found.values())


def _lines(moves: Sequence[Done], ending: Ending, name: str, path: Path, items: int) -> Iterator[str]:
    many = f"{items} items" if items > 1 else "1 item"
    yield f"Two buyers, A and B, and {many}: {sentence_of(ending, items)}. The shortest such order:"
    yield from _steps(moves, str(path))
    if hides_behind_lost_answer(moves):
        yield f"  {TEXTS['en']['finally']}"
    schedule = ".".join(str(done.move) for done in moves)
    yield f"Step it: /steps#guard={quote(name)}&grain={COMMANDS}&schedule={schedule}"


def _steps(moves: Sequence[Done], path: str) -> Iterator[str]:
    """The moves that say something, each with the line of `buy` on which the purchase stood before."""
    for done in moves:
        if done.command or done.move.is_fault or done.waits or done.failure:
            code = linecache.getline(path, done.line or 0).strip()
            yield f"  {named(done.words):<40}" + (f"  line {done.line}: {code}" if code else "")


def named(words: str) -> str:
    """Return a move with the name of its command in Redis, where a script is known by its text or its hash alone."""
    return re.sub(r"^(\S+) (?=[0-9a-f]{8}\b)", r"\1 EVALSHA ", words.replace(" SCRIPT", " EVAL"))
