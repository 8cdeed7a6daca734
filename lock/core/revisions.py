"""What etcd has told of its revision, which rises unless etcd was restored from a backup, or wiped."""

from collections.abc import Callable


class Revisions:
    """The highest one that was told; `restored` is called where that is not true any more."""

    def __init__(self, restored: Callable[[float], object]) -> None:
        self.highest = 0
        self._restored = restored

    def observe(self, revision: int, known: int, now: float) -> bool:
        """A revision that an answer tells; whether it is lower than one that was known when it was asked for.

        Only an etcd that was restored from a backup, or wiped, answers so: then what is known is not true any more.
        """
        if revision >= known:
            self.highest = max(self.highest, revision)
            return False
        self._restored(now)
        self.highest = revision
        return True
