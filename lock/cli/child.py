"""The command that runs under the lock."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

from lock.cli.exit_codes import Exit
from lock.cli.guardian import Guardian
from lock.cli.signals import await_event
from lock.recipes.hold import Hold
from lock.runtime.clock import now

_POLL_S = 0.02


class Child:
    """A process in a session of its own, so that a signal can reach it together with everything it has started.

    It does not outlive this process: see `lock.cli.guardian`.

    Args:
        command: what to run.
        environment: added to ours.
        grace: seconds between SIGTERM and SIGKILL where it has to be ended.

    Raises:
        OSError: the command cannot be run.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], grace: float) -> None:
        self._grace = grace
        self._guardian = Guardian(grace)
        try:
            self._popen = subprocess.Popen(command, env={**os.environ, **environment}, start_new_session=True)
        except BaseException:
            self._guardian.dismiss()
            raise
        self._guardian.watch(self._popen.pid)

    def signal(self, number: int) -> None:
        """Pass a signal on to it and its children; nothing once it has ended."""
        if self._popen.returncode is None:
            self._signal_group(number)

    def wait(self, hold: Hold) -> int | None:
        """Its exit code as a shell tells it (128 + n after signal n), or None as soon as `hold` is lost."""
        over = threading.Event()
        hold.on_lost(over.set)
        threading.Thread(target=self._wait, args=(over,), daemon=True).start()
        await_event(over)
        code = self._popen.returncode
        if code is not None:
            self._guardian.dismiss()
        return Exit.SIGNALLED - code if code is not None and code < 0 else code

    def end(self) -> None:
        """SIGTERM to it and its children, and SIGKILL to those that are still there after the grace."""
        deadline = now() + self._grace
        self._signal_group(signal.SIGTERM)
        self._signal_group(signal.SIGCONT)  # one that is stopped would not hear the other
        while self._signal_group(0) and now() < deadline:
            time.sleep(_POLL_S)
        self._signal_group(signal.SIGKILL)
        self._popen.wait()
        self._guardian.dismiss()

    def _wait(self, over: threading.Event) -> None:
        self._popen.wait()
        over.set()

    def _signal_group(self, number: int) -> bool:
        """Whether anybody of the group was there; the zombie of a child not yet waited for counts."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: PermissionError for zombies alone
            os.killpg(self._popen.pid, number)
            return True
        return False
