"""How a command ends: exit codes that keep clear of what children and shells commonly use, by error or by signal."""

from __future__ import annotations

import contextlib
import enum
import signal
import sys
from collections.abc import Callable, Iterator

from lock.cli.guardian import ENDING, PASSED_ON
from lock.errors import EtcdDenied, EtcdUnavailable, LockError, LockLost, LockTimeout
from lock.runtime.clock import now

_CLEANUP_S = 10.0  # enough to release a lock and revoke a lease, even if etcd does not answer


class Exit(enum.IntEnum):
    """Exit codes; 69 to 77 have these meanings in BSD's sysexits.h, 126 and 127 in every shell."""

    UNAVAILABLE = 69
    FAILED = 70
    NOT_ACQUIRED = 75
    LOST = 76
    DENIED = 77
    CANNOT_RUN = 126
    NO_SUCH_COMMAND = 127
    SIGNALLED = 128  # plus the number of the signal


_OF_ERROR = (
    (LockTimeout, Exit.NOT_ACQUIRED),
    (LockLost, Exit.LOST),
    (EtcdUnavailable, Exit.UNAVAILABLE),
    (EtcdDenied, Exit.DENIED),
    (LockError, Exit.FAILED),
)


def code_of(error: LockError) -> Exit:
    """The exit code for an error of the library."""
    return next(code for kind, code in _OF_ERROR if isinstance(error, kind))


class Stopped(BaseException):
    """A signal, its argument, asked this process to end."""


class Signals:
    """Handles signals; by default they end this process from its main thread, but not while that cleans up.

    Those that ask it to end raise `Stopped`. Those that a command is to get, if there is none yet, raise SystemExit:
    nothing is left behind, but it ends with 128+N even if `Stopped` is success. Signals that were ignored when this
    process started (``nohup``) stay ignored.
    """

    def __init__(self) -> None:
        self._deliver: Callable[[int], object] = self._stop
        self._deaf_until = 0.0

    @contextlib.contextmanager
    def handled(self) -> Iterator[Signals]:
        """Handle them inside, end with 128+N at `Stopped`, and restore what was there before."""
        numbers = [number for number in (*ENDING, *PASSED_ON) if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, lambda number, _: self._deliver(number)) for number in numbers}
        try:
            yield self
        except Stopped as stopped:
            sys.exit(Exit.SIGNALLED + stopped.args[0])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def launch(self, start: Callable[[], object], deliver: Callable[[int], object]) -> None:
        """Start a child and deliver signals to it from now on; those that come while it starts reach it then."""
        pending: list[int] = []
        self._deliver = pending.append
        try:
            start()
        except BaseException:
            self._deliver = self._stop
            raise
        self._deliver = deliver
        for number in pending:
            deliver(number)

    def _stop(self, number: int) -> None:
        if now() >= self._deaf_until:
            self._deaf_until = now() + _CLEANUP_S
            raise Stopped(number) if number in ENDING else SystemExit(Exit.SIGNALLED + number)
