"""Ends waits from outside, one by one."""

from collections.abc import Callable, Hashable


class CancelToken:
    """Ends the waits that it was given to, ``acquire(cancel=token)``; holds go on. Thread-safe; use it once.

    Attributes:
        cancelled: whether `cancel` was called: then a wait that it is given to ends at once.
    """

    def __init__(self) -> None:
        self.cancelled = False
        self._waits: dict[Hashable, Callable[[], object]] = {}

    def cancel(self) -> None:
        """Wake each thread that waits with this token with `LockCancelled`."""
        self.cancelled = True
        for end in list(self._waits.values()):
            end()

    def _add(self, wait: Hashable, end: Callable[[], object]) -> None:
        self._waits[wait] = end
        if self.cancelled:  # perhaps before it was added
            end()

    def _discard(self, wait: Hashable) -> None:
        self._waits.pop(wait, None)


def check_token(cancel: object) -> None:
    """Refuse what ends no wait, with a TypeError that says what does."""
    if not isinstance(cancel, CancelToken):
        raise TypeError(f"cancel is a CancelToken, or None; got {cancel!r}")
