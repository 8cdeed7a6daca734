"""The etcd mutex with the fencing token checked by the resource: exact, whatever happens to the holder."""

from __future__ import annotations

from app.guards.base import Promise, Tools
from app.guards.fenced import FencedGuard
from lock import Mutex


class EtcdGuard(FencedGuard):
    """One acquisition per purchase, first come first served over all instances."""

    name = "etcd"
    promise = Promise.EXACT
    description = "An etcd mutex, and Redis refuses every fencing token lower than the highest it has seen. Exact."

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._mutexes: dict[str, Mutex] = {}

    def mutex(self, item: str) -> Mutex:
        session, mutex = self.tools.coordination.session(), self._mutexes.get(item)
        if mutex is None or mutex.session is not session:
            mutex = self._mutexes[item] = self.tools.coordination.mutex(item)
        return mutex
