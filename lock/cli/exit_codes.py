"""The command's own exit codes; they keep clear of what children and shells commonly use."""

from __future__ import annotations

import contextlib
import enum
import sys
from collections.abc import Iterator

import click

from lock.errors import EtcdDenied, EtcdUnavailable, LockError, LockLost, LockTimeout


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


def say(message: str) -> None:
    """A line for the person at the terminal, kept apart from what the command prints."""
    click.echo(f"etcd-lock: {message}", err=True)


@contextlib.contextmanager
def errors_as_exit_codes() -> Iterator[None]:
    """Turn the errors of `lock` into one line and an exit code."""
    try:
        yield
    except LockError as error:
        say(str(error))
        sys.exit(next(code for kind, code in _OF_ERROR if isinstance(error, kind)))
