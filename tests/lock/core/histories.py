"""`make histories`: tries every history of the small worlds, and prints what was found; `--replay` goes through one.

With one fault each kind of it is explored by itself: that is the same, and what was cut is only that kind.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
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
    "arrive": "etcd does request {0} of those on their way",
    "answer": "the answer to request {0} of those on their way is told",
    "hear": "session {0} hears what the watch of {1} tells next",
    "thaw": "session {0} runs again",
    "look": "the worker of session {0} does what is due",
    "lapse": "the lease of session {0} comes to its end",
    "depart": "another client deletes its key {0}",
    "time": "time runs on to the next thing that is due",
}
_ROW = "{:12} {:>6} {:>9} {:>10} {:>8}  {}"


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


Job = tuple[str, int, tuple[str, ...], float]


def _jobs(worlds: list[str], counts: list[int], seconds: float) -> Iterator[Job]:
    for count in counts:
        for world in worlds:
            kinds = WORLDS[world].kinds
            if count == 1:
                single = [kind for kind in faults.KINDS if kind in (kinds or faults.KINDS)]
                yield from ((world, 1, ("back_up", kind) if kind == "restore" else (kind,), seconds) for kind in single)
            elif count == 0 or kinds:
                yield world, count, kinds, seconds


def _explore(job: Job) -> tuple[Job, Found]:
    world, count, kinds, seconds = job
    return job, Explorer(replace(WORLDS[world], kinds=kinds), count, seconds=seconds).run()


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


def _row(world: str, count: int, done: Sequence[tuple[Job, Found]]) -> str:
    """What one world has, over all kinds of faults."""
    found = [each for _, each in done]
    histories = sum(each.histories for each in found) if all(each.histories for each in found) else 0
    cut = [kinds[-1] if count == 1 else "" for (_, _, kinds, _), each in done if not each.is_complete]
    end = "complete" if not cut else f"cut {', '.join(cut)}"
    end = "BROKEN" if any(each.violation for each in found) else end
    numbers = sum(each.states for each in found), f"{histories:.3g}" if histories else "-"
    return _ROW.format(world, count, *numbers, f"{sum(each.seconds for each in found):.1f}", end.rstrip())


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if no rule was broken, 1 if one was, 2 if none was and something was not tried to its end."""
    logging.disable(logging.CRITICAL)
    parser = argparse.ArgumentParser(prog="make histories", description=__doc__)
    parser.add_argument("--world", action="append", choices=list(WORLDS), help="repeatable; default: all")
    parser.add_argument("--faults", action="append", type=int, help="of each history, at most; default: 0 and 1")
    parser.add_argument("--seconds", type=float, default=100.0, help="of the CPU, for each row and kind; default: 100")
    parser.add_argument("--replay", metavar="HISTORY", help="the steps of one history of one world")
    options: Any = parser.parse_args(arguments)
    worlds, counts = options.world or list(WORLDS), options.faults or [0, 1]
    if options.replay:
        return _replay(worlds[0], counts[0], options.replay)
    print(_ROW.format("world", "faults", "states", "histories", "seconds", ""))
    jobs = list(_jobs(worlds, counts, options.seconds))
    all_found: list[Found] = []
    with Pool(min(len(jobs), os.cpu_count() or 1)) as pool:
        for (world, count), group in groupby(pool.imap(_explore, jobs), key=lambda done: done[0][:2]):
            done = list(group)
            print(_row(world, count, done), flush=True)
            all_found += [found for _, found in done]
            for found in all_found[-len(done) :]:
                if found.violation:
                    print(explain(world, count, found))
    if any(found.violation for found in all_found):
        return 1
    return 0 if all(found.is_complete for found in all_found) else 2


if __name__ == "__main__":
    sys.exit(main())
