"""At most so many holders of one name over all processes, first come first served.

Rule: fewer than `limit` keys before mine. Every key declares the limit that it goes by. If the first key of the
queue has another one, an acquisition fails with `AdmissionConflict`; until it knows, such keys exclude each other. So
more than the limit never hold.

There is no fencing token: of several holders none is the last one, so there is no number that a resource could refuse.
docs/lock-recipes.md says what to use instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lock.core.acquisition import Terms
from lock.core.admission import Admission
from lock.model import Declaration, KeyValue, declaration
from lock.recipes.hold import HeldKey
from lock.recipes.queued_lock import QueuedLock
from lock.runtime.clock import check_number, is_whole
from lock.session.session import Session

_KIND = "permit"


@dataclass(frozen=True)
class UpTo(Admission):
    """At most `limit` keys hold together."""

    limit: int

    def kind(self, kv: KeyValue) -> str | None:
        return _KIND if declaration(kv) == (_KIND, self.limit) else None

    def admits(self, kind: str, ahead: Mapping[str, int]) -> bool:
        return sum(ahead.values()) < self.limit

    def conflict(self, first: KeyValue) -> str | None:
        kind, limit = declaration(first)
        if kind != _KIND or limit == self.limit:
            return None
        return (
            f"the semaphore of key {first.key!r} has a limit of {limit}, not {self.limit}: use the same limit "
            "everywhere, and change it when there is neither holder nor waiter"
        )


class Permit(HeldKey):
    """One of a semaphore's permits, held. Leaving ``with`` gives it back. It has no token."""


class Semaphore(QueuedLock[Permit]):
    """One name with `limit` permits, to be acquired by any thread; costs nothing until used and may be shared.

    Args:
        session: the process's session.
        name: as for `Mutex`. A mutex or ``etcdctl lock`` of that name excludes all permits.
        limit: how many hold at the same time; the same in all processes.
        max_hold: as for `Mutex`.

    Raises:
        ValueError: `limit` is not a whole number of 1 or more; TypeError: not a number; others as `Mutex`.
    """

    def __init__(self, session: Session, name: str, limit: int, *, max_hold: float | None = None) -> None:
        check_number(limit, is_whole, "limit is a whole number, 1 or more")
        self.limit = limit
        super().__init__(session, name, Permit, terms=Terms(UpTo(limit), Declaration(_KIND, limit)), max_hold=max_hold)

    def locked(self) -> bool:
        """Whether no permit is free at this moment; asks etcd, so it may raise `EtcdUnavailable`."""
        keys = self._client.get_prefix(self._prefix).keys
        return len(keys) >= self.limit or None in map(self._terms.rule.kind, keys)
