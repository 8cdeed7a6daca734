"""Whether all that the servers were asked for was seen here: what goes there in another way was not ordered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from labs.steps.schedules.quiescence import NoVerdict
from labs.steps.schedules.servers import Servers
from labs.steps.wire import TO_ETCD, TO_REDIS

LATE_S = 0.5  # that a command may be on its way
SETTLE_S, SETTLED_S = 0.1, 10.0  # between two looks that have to agree, and until they do at last
UNORDERED = "not every order was tried"
INSTEAD = "Send all from Python's own sockets or gRPC in this process: not from another program, or a library in C."


class AllSeen:
    """Compares what the servers were asked for with what all processes have `sent`, the dead ones too.

    All count what they send before they send it, so that a death leaves nothing uncounted.
    """

    def __init__(self, servers: Servers, sent: Callable[[], Iterable[memoryview]]) -> None:
        self._servers, self._sent = servers, sent
        self._unseen = (0, 0)  # before all was seen

    def begin(self) -> None:
        """From now on all is to be seen; raises NoVerdict."""
        until = time.monotonic() + SETTLED_S
        while time.monotonic() < until:
            self._unseen = self._look()
            time.sleep(SETTLE_S)
            if self._unseen == self._look():
                return
        raise NoVerdict("Redis or etcd are asked for something all the time, before the first purchase")

    def check(self) -> None:
        """Raise NoVerdict if the servers were asked for more than was seen since `begin`."""
        until = time.monotonic() + LATE_S
        while True:
            redis, etcd = (now - before for now, before in zip(self._look(), self._unseen, strict=True))
            if redis <= 0 and etcd <= 0:
                return
            if time.monotonic() > until:
                break
            time.sleep(0.02)
        last = "; ".join(self._servers.last_commands())
        to_redis = f"{redis} bytes to Redis (its clients' last commands: {last})" if redis > 0 else ""
        what = " and ".join(filter(None, [to_redis, f"{etcd} requests to etcd" if etcd > 0 else ""]))
        raise NoVerdict(f"{UNORDERED}: something was sent that could not be stopped: {what}. {INSTEAD}")

    def _look(self) -> tuple[int, int]:
        redis, etcd = self._servers.asked()
        sent = list(self._sent())
        return redis - sum(each[TO_REDIS] for each in sent), etcd - sum(each[TO_ETCD] for each in sent)
