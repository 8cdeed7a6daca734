"""How a rush is ended from outside: by Ctrl-C, and in a worker by the end of its master."""

from __future__ import annotations

import os
import signal
from typing import Any, NoReturn

import gevent

from loadtest.results.comparison import NO_RESULT
from loadtest.rush.progress import Terminal

_LOOK_FOR_MASTER_S = 1.0


class Interrupts:
    """Ctrl-C for this process and for the workers that Locust forks from it.

    Attributes:
        expected: whether Locust expects Ctrl-C now: not while it waits for its workers, nor a second time.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._environment: Any = None
        self.expected = False
        self._made_in = os.getpid()
        signal.signal(signal.SIGINT, self._exit)
        os.register_at_fork(after_in_child=lambda: gevent.spawn(self._end_with_master))

    def listen(self, environment: Any, *, expected: bool) -> None:
        """From here on Locust is set up."""
        self._environment, self.expected = environment, expected
        gevent.signal_handler(signal.SIGINT, self._interrupt)

    def _exit(self, *_: object) -> NoReturn:
        """Ctrl-C while Locust is still being set up; not by an exception, which is ignored where Python forks."""
        if os.getpid() == self._made_in:
            self._terminal.stopped()
        os._exit(NO_RESULT)

    def _interrupt(self) -> None:
        """Ctrl-C: end Locust's main greenlet.

        Python would raise KeyboardInterrupt in the greenlet that is running, whichever it is, with its traceback.
        """
        is_expected, self.expected = self.expected, False
        if not is_expected:
            self._terminal.stopped()
        gevent.get_hub().parent.throw(KeyboardInterrupt() if is_expected else SystemExit(NO_RESULT))

    def _end_with_master(self) -> None:
        """In a worker: end soon after its master; Locust itself may let it look for its master for five minutes.

        Ctrl-C may have ended the master alone: Python forgets a signal that a process gets as it is forked.
        """
        while os.getppid() == self._made_in:
            gevent.sleep(_LOOK_FOR_MASTER_S)
        if self._environment is None:  # it never met its master
            os._exit(NO_RESULT)
        self._environment.runner.quit()
