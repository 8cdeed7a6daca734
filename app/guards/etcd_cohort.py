"""The etcd mutex, handed from thread to thread inside an instance: one hand-over over etcd for many purchases."""

from __future__ import annotations

from app.guards.base import Promise
from app.guards.fenced import FencedGuard
from lock import CohortMutex


class EtcdCohortGuard(FencedGuard):
    """Every purchase has a turn of its own, with a token of its own: the pair (create revision, turn).

    While another instance waits, a hold ends after `CohortMutex`'s `batch` turns or `slice` seconds. So whoever stands
    first in the other instance waits for at most `slice`, one critical section and one hand-over.
    """

    name = "etcd-cohort"
    promise = Promise.EXACT
    description = "An etcd mutex that an instance hands along inside for a moment, with fencing tokens. Exact."

    def mutex(self, item: str) -> CohortMutex:
        return self.tools.sessions.cohort(item)
