"""The directory in which the workers of an instance keep their metrics, which a killed master cannot remove."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "flashsale-metrics-"


class MetricsDirectory:
    """A new directory; those of instances of which no process is left are removed.

    Each instance holds a lock on its directory until its last process ends, however that ends: workers inherit it.
    """

    def __init__(self) -> None:
        for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with suppress(OSError):  # in use, or another user's
                descriptor = _lock(left)
                shutil.rmtree(left, ignore_errors=True)
                os.close(descriptor)
        self._descriptor = -1
        while self._descriptor < 0:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            with suppress(OSError):  # another instance that starts now has taken it for one that was left
                self._descriptor = _lock(self.path)

    def remove(self) -> None:
        """Remove it; the master does at a clean end."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._descriptor)


def _lock(path: Path) -> int:
    """Lock a directory: the descriptor that holds the lock. OSError if it is locked, or was removed meanwhile."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), path.stat()):
            raise FileNotFoundError(path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
