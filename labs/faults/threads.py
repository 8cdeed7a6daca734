"""Threads of one trial, and why a scenario cannot be played as it is meant."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

from loadtest.language import Message


class ScenarioError(Exception):
    """The scenario could not be played as it is meant: what it waited for did not happen in time."""

    def __init__(self, text: str, /, **values: Message | str | int | float) -> None:
        self.reason = Message(text, values)  # why, in any language
        super().__init__(str(self.reason))


class MistimedFault(ScenarioError):
    """The fault came too early or too late, as happens on a busy machine: that shows nothing, so it is played again."""


class TrialThreads:
    """Starts threads, and remembers their errors: what one of them raises ends the scenario."""

    def __init__(self) -> None:
        self.errors: list[Message] = []  # of threads that ended with an exception, a sentence each

    def start(self, name: str, target: Callable[[], object]) -> Thread:
        """A daemon: Ctrl-C does not wait for it, as it would for a thread of an executor."""
        thread = Thread(target=self._run, args=(name, target), name=name, daemon=True)
        thread.start()
        return thread

    def check(self) -> None:
        """Raises ScenarioError if one of them has failed."""
        if self.errors:
            raise ScenarioError("{why}", why=self.errors[0])

    def _run(self, name: str, target: Callable[[], object]) -> None:
        try:
            target()
        except Exception as error:  # whatever it is: the trial cannot be judged without this thread
            self.errors.append(Message.of("the thread {name} ended with {error}", name=name, error=repr(error)))
