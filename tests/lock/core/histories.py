"""`make histories`: tries every history of the small worlds, and prints what was found; `--replay` goes through one.

With one fault each kind of it is explored by itself: that is the same, and what was cut is only that kind.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import Pool
from typing import Any

from tests.lock.core import faults
from tests.lock.core.explorer import Explorer, Found, Move, is_fault, replay
from tests.lock.core.small_world import Violation
from tests.lock.core.worlds import WORLDS

_WORDS = {
    "begin": "thread {1} of session {0} begins to acquire",
    "go": "thread {1} of session {0} wakes and goes on",
    "release": "thread {1} of session {0} releases",
    "leave": "thread {1} of session {0} has waited for as long as it would",
    "arrive": "etcd does request {0} of those on their way",
    "answer": "the answer to request {0} of those on their way is told",
    "hear": "session {0} hears what the watch of {1} tells next",
    "thaw": "session {0} runs again",
    "look": "the worker of session {0} does what is due",
    "lapse": "the lease of session {0} comes to its end",
    "depart": "another client deletes its key {0}",
    "time": "time runs on to the next thing that is due",
}
_ROW = "{:12} {:>6} {:>9} {:>8}  {}"


def in_words(move: Move) -> str:
    """A step as a sentence."""
    kind, *where = move
    if is_fault(move):
        return f"{getattr(faults, kind).__doc__.splitlines()[0].rstrip('.')} ({', '.join(map(str, where))})"
    return _WORDS[kind].format(*where)


def as_text(history: Sequence[Move]) -> str:
    """What `--replay` takes."""
    return "; ".join(" ".join(map(str, move)) for move in history)


def from_text(text: str) -> list[Move]:
    """What `as_text` made."""
    parts = [step.split() for step in text.split(";") if step.strip()]
    return [tuple(int(part) if part.isdigit() else part for part in step) for step in parts]


def explain(world: str, count: int, found: Found) -> str:
    """The shortest history that breaks a rule, and how to see it again."""
    steps = [f"  {number}. {in_words(move)}" for number, move in enumerate(found.history, 1)]
    again = f"make histories ARGS='--world {world} --faults {count} --replay \"{as_text(found.history)}\"'"
    return "\n".join([f"{world}: {found.violation}", *steps, again])


@dataclass
class Row:
    """What one world has with so many faults: by the kind of the fault where there is one, else once."""

    world: str
    count: int
    found: dict[str, Found] = field(default_factory=dict)

    def __str__(self) -> str:
        found = self.found.values()
        cut = [kind for kind, each in self.found.items() if not each.is_complete]
        end = "complete" if not cut else "cut" if len(cut) == len(found) else f"cut: {', '.join(cut)}"
        end = "BROKEN" if any(each.violation for each in found) else end
        states, seconds = sum(each.states for each in found), sum(each.seconds for each in found)
        return _ROW.format(self.world, self.count, states, f"{seconds:.1f}", end)


def _explore(job: tuple[str, int, float]) -> Row:
    world, count, left = job
    plan, row = WORLDS[world], Row(world, count)
    kinds = [kind for kind in faults.KINDS if kind in (plan.kinds or faults.KINDS)] if count == 1 else [""]
    for place, kind in enumerate(kinds):
        one = plan if not kind else replace(plan, kinds=("back_up", kind) if kind == "restore" else (kind,))
        row.found[kind] = Explorer(one, count, seconds=left / (len(kinds) - place)).run()
        left -= row.found[kind].seconds
    return row


def _replay(world: str, count: int, text: str) -> int:
    history = from_text(text)
    for number, move in enumerate(history, 1):
        print(f"  {number}. {in_words(move)}")
    try:
        replay(WORLDS[world], count, history).settle()
    except Violation as violation:
        print(violation)
        return 1
    print("No rule is broken.")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if no rule was broken, 1 if one was, 2 if none was and something was not tried to its end."""
    logging.disable(logging.CRITICAL)
    parser = argparse.ArgumentParser(prog="make histories", description=__doc__)
    parser.add_argument("--world", action="append", choices=list(WORLDS), help="repeatable; default: all")
    parser.add_argument("--faults", action="append", type=int, help="of each history, at most; default: 0 and 1")
    parser.add_argument("--seconds", type=float, default=100.0, help="of the CPU, for each world; default: 100")
    parser.add_argument("--replay", metavar="HISTORY", help="the steps of one history of one world")
    options: Any = parser.parse_args(arguments)
    worlds, counts = options.world or list(WORLDS), options.faults or [0, 1]
    if options.replay:
        return _replay(worlds[0], counts[0], options.replay)
    print(_ROW.format("world", "faults", "states", "seconds", ""))
    jobs = [
        (world, count, options.seconds)
        for count in counts for world in worlds if count < 2 or options.world or WORLDS[world].kinds
    ]  # fmt: skip
    is_broken = is_cut = False
    with Pool(min(len(jobs), os.cpu_count() or 1)) as pool:
        for row in pool.imap(_explore, jobs):
            print(row, flush=True)
            for found in row.found.values():
                if found.violation:
                    print(explain(row.world, row.count, found))
                is_broken, is_cut = is_broken or bool(found.violation), is_cut or not found.is_complete
    return 1 if is_broken else 2 if is_cut else 0


if __name__ == "__main__":
    sys.exit(main())
