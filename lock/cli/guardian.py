"""Ends the command's processes when the one that holds the lock for them is killed.

A SIGKILL cannot be caught, but the kernel closes the pipes of whoever it ends. So a shell waits at the other end of
one, in a session of its own, where neither Ctrl-C nor a signal to the whole job reaches it.
"""

from __future__ import annotations

import contextlib
import subprocess

_SCRIPT = """
read -r group || exit           # the pipe has ended before there was anybody to guard
read -r never                   # and now it has ended
kill -s TERM -- "-$group"
kill -s CONT -- "-$group"
sleep "$1"
kill -s KILL -- "-$group"
"""


class Guardian:
    """Waits for the end of this very process, or for `dismiss`.

    Args:
        grace: seconds between SIGTERM and SIGKILL.
    """

    def __init__(self, grace: float) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "lock-guardian", str(grace)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )

    def watch(self, group: int) -> None:
        """From now on this process group ends together with us."""
        assert self._shell.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # somebody has killed the shell: the command is on its own
            self._shell.stdin.write(f"{group}\n".encode())

    def dismiss(self) -> None:
        """The group has ended, or may go on alone."""
        self._shell.kill()
        self._shell.communicate()
