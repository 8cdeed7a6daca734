"""A program at a terminal, as a person would use it, and what Rich would show there."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from rich.console import Console

WAIT_S = 30.0  # far more than anything here takes
# The leader of a session gets the terminal that it opens as controlling terminal. (A `preexec_fn` would be Python in a
# fork of this process, in which gRPC has threads: some of these children abort.)
_AT_TERMINAL = 'exec "$@" <>"$0" >&0 2>&0'


def printed(renderable: object, *, width: int = 80, **options: Any) -> str:
    """What Rich prints of it, in a file unless the options of its console say otherwise."""
    console = Console(file=StringIO(), width=width, **options)
    with console.capture() as shown:
        console.print(renderable)
    return shown.get()


class Terminal:
    """A program with its own pseudo-terminal as controlling terminal; its session is killed at the end."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], *, term: str = "dumb") -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._master, slave = os.openpty()
        self.process = subprocess.Popen(
            ["sh", "-c", _AT_TERMINAL, os.ttyname(slave), *command],
            env={**env, "TERM": term},  # a dumb one gets no escapes
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.screen = ""

    def __repr__(self) -> str:
        """What a failed test is explained by."""
        return f"<Terminal: exit code {self.process.poll()}, screen {self.screen!r}>"

    def type(self, text: str) -> None:
        """Press keys: Ctrl-C is the character 3, Ctrl-Z the character 26."""
        os.write(self._master, text.encode())

    @property
    def reads_keys(self) -> bool:
        """Whether the program reads single keys; those that were pressed before are dropped."""
        return not termios.tcgetattr(self._master)[3] & termios.ICANON

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def shows(self, text: str, times: int = 1) -> bool:
        """Wait until a text stands on the screen so many times; whether it does before the terminal is closed."""
        until = time.monotonic() + WAIT_S
        while self.screen.count(text) < times:
            if not select.select([self._master], [], [], max(until - time.monotonic(), 0.0))[0]:
                return False
            try:
                piece = os.read(self._master, 4096)
            except OSError:  # Linux: the last process has closed its end
                return False
            if not piece:
                return False
            self.screen += self._decode(piece)
        return True

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc_info: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)
        self.process.wait(WAIT_S)
        os.close(self._master)
