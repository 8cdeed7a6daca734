"""Who may hold together: a rule over the queue, and how far a rule lets the queue in.

Each recipe is such a rule. Mutex: none before me. Semaphore: fewer than n before me. Read-write lock: for a reader
no writer before it, for a writer none. A rule looks only at keys that stand before a key, and stays true when some of
them leave, so an old view of the queue is safe: `lock.core.view` proves it.
"""

from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from lock.model import KeyValue, declaration


class Admission(ABC):
    """A rule that says which keys of a queue may hold at the same time.

    Keys are admitted in the order of the queue: a key that has to wait holds up all behind it, so no one starves. The
    first key always holds. A key of unknown kind, such as that of ``etcdctl lock``, is exclusive: it holds alone.

    A rule has to stay true when keys before mine leave: if `admits(kind, ahead)`, then also with any smaller `ahead`.
    Rules that are equal are taken for one rule, so each is a frozen dataclass.
    """

    def kind(self, kv: KeyValue) -> str | None:
        """What a key is to this rule; None is exclusive. By default what the key's value declares."""
        return declaration(kv).kind

    @abstractmethod
    def admits(self, kind: str, ahead: Mapping[str, int]) -> bool:
        """Whether a key of this kind may hold together with those before it, which all hold: so many of each kind.

        No exclusive one is among them, and there is at least one.
        """

    def conflict(self, first: KeyValue) -> str | None:
        """Why no key can wait by this rule behind the first key of the queue; None if one can."""
        return None


class Exclusive(Admission):
    """Each key holds alone."""

    def admits(self, kind: str, ahead: Mapping[str, int]) -> bool:
        return False


EXCLUSIVE = Exclusive()


class Frontier:
    """How far one rule lets a queue, `keys` in order, in: its first keys hold, the others wait. Not thread-safe.

    Each key is looked at once, when it is its turn; whatever leaves, however many hold, costs the same.
    """

    def __init__(self, rule: Admission, keys: Iterable[KeyValue]) -> None:
        self._rule = rule
        self._admitted: dict[str, str | None] = {}
        self._waiting = OrderedDict((kv.key, rule.kind(kv)) for kv in keys)
        self._ahead: Counter[Any] = Counter()  # those admitted, by kind

    def put(self, kv: KeyValue) -> None:
        """A key has come, behind all others; or it was overwritten, and keeps its place."""
        kind = self._rule.kind(kv)
        if kv.key in self._admitted:
            self._count(self._admitted[kv.key], -1)
            self._count(kind, 1)
            self._admitted[kv.key] = kind
        else:
            self._waiting[kv.key] = kind

    def remove(self, key: str) -> None:
        if key in self._admitted:
            self._count(self._admitted.pop(key), -1)
        else:
            self._waiting.pop(key, None)

    def advance(self) -> list[str]:
        """The keys that hold from now on."""
        admitted = []
        while self._waiting:
            key, kind = next(iter(self._waiting.items()))
            if self._admitted and (kind is None or None in self._ahead or not self._rule.admits(kind, self._ahead)):
                break
            del self._waiting[key]
            self._admitted[key] = kind
            self._count(kind, 1)
            admitted.append(key)
        return admitted

    def holds(self, key: str) -> bool:
        return key in self._admitted

    def has_waiters(self) -> bool:
        return bool(self._waiting)

    def _count(self, kind: str | None, change: int) -> None:
        self._ahead[kind] += change
        if not self._ahead[kind]:
            del self._ahead[kind]
