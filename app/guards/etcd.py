"""The etcd mutex with the fencing token checked by the resource: exact, whatever happens to the holder."""

from __future__ import annotations

from app.guards.base import Promise
from app.guards.fenced import FencedGuard
from lock import Mutex


class EtcdGuard(FencedGuard):
    """One acquisition per purchase, first come first served over all instances."""

    name = "etcd"
    promise = Promise.EXACT
    description = "An etcd mutex, and Redis refuses every fencing token lower than the highest it has seen. Exact."

    def mutex(self, item: str) -> Mutex:
        return self.tools.sessions.shared_mutex(item)
