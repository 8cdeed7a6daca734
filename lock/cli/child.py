"""The command that runs under the lock."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

from lock.cli import guardian
from lock.cli.exit_codes import Exit
from lock.recipes.hold import HeldKey
from lock.runtime.clock import CLOCK, now

_POLL_S = 0.1  # how often the guardian hears of this process, and this one looks for a signal
_PATIENCE_S = 1.0  # beyond the grace: for a guardian that is alive to kill what has not ended


class Child:
    """The command, run by a guardian (`lock.cli.guardian`); `grace` seconds lie between SIGTERM and SIGKILL."""

    def __init__(self, command: Sequence[str], grace: float) -> None:
        self.command = command
        self.was_ended = False  # by the guardian, as this process was silent until the lease was about to end
        self._grace = grace
        self._code: int | None = None
        self._failure: OSError | None = None
        guardian.adopt_orphans()  # for the case that the guardian is killed
        self._control, theirs = socket.socketpair()
        self._messages = self._control.makefile("r")
        with theirs:
            theirs.set_inheritable(True)
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, guardian.SIGNALS)  # until it has its handlers
            program = [sys.executable, "-I", "-S", str(guardian.__file__), str(theirs.fileno())]
            self._guardian = subprocess.Popen(program, close_fds=False)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._hang_up()
        self._guardian.wait()

    def start(self, environment: Mapping[str, str], remaining: float) -> None:
        """Run it, with this added to our environment; `remaining` is how many seconds the lock is surely ours."""
        request = [self.command, dict(environment), self._grace, CLOCK, now() + remaining]
        self._control.sendall(f"{json.dumps(request)}\n".encode())

    def signal(self, number: int) -> None:
        """Pass a signal on, unless it comes from the keyboard and has reached the command already."""
        if number not in (signal.SIGINT, signal.SIGQUIT) or not _in_foreground():
            self._tell("signal", number)

    def wait(self, hold: HeldKey) -> int | None:
        """Its exit code as a shell tells it (128 + n after signal n); OSError if it cannot be run.

        `None` as soon as it has to be ended: `hold` is lost, the guardian ends it (`was_ended`), or was killed.
        """
        over = threading.Event()
        hold.on_lost(over.set)
        threading.Thread(target=self._listen, args=(over,), daemon=True).start()
        while not over.wait(_POLL_S):
            self._prolong(hold.remaining())
        if self._failure is not None:
            raise self._failure
        return self._code

    def end(self) -> None:
        """SIGTERM to it and its children, and SIGKILL to those that are still there after the grace."""
        self._tell("until", now() + self._grace)
        self._hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guardian.wait(self._grace + _PATIENCE_S)
        guardian.end_descendants(0.0)  # there is none, unless the guardian was stopped or killed
        self._guardian.wait()

    def _listen(self, over: threading.Event) -> None:
        with contextlib.suppress(ConnectionResetError):  # the guardian was killed before it had read all
            for line in self._messages:
                what, value = json.loads(line)
                if what == "failed":
                    self._failure = OSError(value, os.strerror(value))
                elif what == "ending":
                    self.was_ended = True
                else:
                    self._code = Exit.SIGNALLED - value if value < 0 else value
                break
        over.set()

    def _prolong(self, remaining: float) -> None:
        if remaining:  # else it is lost, which `on_lost` tells in a moment, and the grace begins only then
            self._tell("until", now() + remaining)

    def _tell(self, what: str, value: float) -> None:
        with contextlib.suppress(OSError):  # the guardian is killed, or stopped and its inbox full
            self._control.send(f"{json.dumps([what, value])}\n".encode(), socket.MSG_DONTWAIT)

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):  # the guardian has hung up
            self._control.shutdown(socket.SHUT_WR)


def _in_foreground() -> bool:
    """Whether the terminal sends Ctrl-C to this process, and so to the command's as well."""
    try:
        with open("/dev/tty") as terminal:  # noqa: PTH123  (no path, but what the process has for a terminal)
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False
