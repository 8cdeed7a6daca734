"""One call that acquires: who calls, what it waits for, one thing after the other, and how it is stopped.

What it waits for is yielded by the recipe: an `Acquisition`, a turn of a cohort, or several in one step. A driver
brings each to its end, a thread by blocking and the session's worker for a task, and goes on with the recipe.
"""

import contextlib
import sys
import threading
from collections.abc import Callable
from functools import partial

from lock.recipes.hold import Releasable
from lock.runtime.clock import now
from lock.runtime.interrupts import start_apart

_PACKAGE = __name__.partition(".")[0] + "."


class Attempt:
    """An attempt to acquire: by which thread or task, from which line of the program, and since when."""

    __slots__ = "_is_stopped", "_stops", "_turn", "began", "enters", "held", "owner", "thread", "where"

    def __init__(self, owner: object, *, enters: bool = False) -> None:
        self.owner = owner
        self.enters = enters  # for a `with` of what is acquired, which leaves by itself
        self.thread = threading.current_thread().name  # that others see
        self.where = _caller()
        self.began = now()
        self.held: Releasable | None = None  # what it has come to, once its caller has it
        self._stops: list[Callable[[], object]] = []
        self._is_stopped = False
        self._turn = [self]

    def on_stop(self, stop: Callable[[], object]) -> None:
        self._stops.append(stop)
        if self._is_stopped:  # perhaps before it was added
            stop()

    def stop(self) -> None:
        """Its caller waits no more: end what it waits for. Takes no lock."""
        self._is_stopped = True
        for stop in list(self._stops):
            stop()

    def undo(self) -> None:
        """An interrupt may keep from its caller what it comes to. Takes no lock."""
        self.stop()
        if self.held is not None:
            start_apart(partial(self.give_up, self.held))

    def give_up(self, held: Releasable | None) -> None:
        """Give up what it has come to, once."""
        if held is not None:
            with contextlib.suppress(IndexError):
                self._turn.pop()
                held._give_up()


def _caller() -> str:
    """The line of the program that called this package."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
