"""Threads that dawdle where they meet: before and after every wait, wake-up and start.

Python imports this by itself where its folder is on PYTHONPATH (`make test-shaken`), also in the processes that tests
start. What is right only because one thread is usually quicker than another then goes wrong sooner or later.
"""

from __future__ import annotations

import queue
import random
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# The methods of the one in C cannot be replaced.
queue.SimpleQueue = type("SimpleQueue", (queue.SimpleQueue,), {})  # type: ignore[misc, assignment]

SWITCH_S = 1e-5  # how long a thread keeps the interpreter; Python's default is 5 ms
LONGEST_S = 0.02
MEETING_PLACES = {
    threading.Event: ("wait", "set", "clear", "is_set"),
    threading.Condition: ("notify", "notify_all"),
    threading.Thread: ("start",),
    queue.Queue: ("put", "get"),
    queue.SimpleQueue: ("put", "get"),
}

_dice = random.Random()  # not the one that tests may seed
_sleep = time.sleep


def dawdle() -> None:
    """Now and then for some milliseconds, often just long enough for another thread to come first."""
    fate = _dice.random()
    if fate < 0.05:
        _sleep(_dice.random() * LONGEST_S)
    elif fate < 0.4:
        _sleep(0)


def dawdling(method: Callable[P, T]) -> Callable[P, T]:
    """The same method, called and left with hesitation."""

    @wraps(method)
    def hesitant(*args: P.args, **kwargs: P.kwargs) -> T:
        dawdle()
        try:
            return method(*args, **kwargs)
        finally:
            dawdle()

    return hesitant


sys.setswitchinterval(SWITCH_S)
for place, methods in MEETING_PLACES.items():
    for name in methods:
        setattr(place, name, dawdling(getattr(place, name)))
