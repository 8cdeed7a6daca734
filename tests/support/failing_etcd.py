"""What etcd has failed to promise: a backup that is restored, and a lease's list that lacks keys, as a new leader's."""

from __future__ import annotations

import random

from lock.core import messages
from lock.model import Event, KeyValue
from lock.testing.simulated_etcd import SimulatedEtcd


class RestorableEtcd(SimulatedEtcd):
    """An etcd that serves the orders of the core, and goes back to a backup; `epoch` rises when it does."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0
        self._backup: tuple[int, dict[str, KeyValue], dict[int, tuple[int, float]]] | None = None

    def serve(self, request: messages.Request) -> object:
        match request:
            case messages.Create():
                return self.create_key(request)
            case messages.CreateAll():
                return self.create_all(request)
            case messages.Delete():
                return self.delete_keys(request)
            case messages.ListQueues():
                return self.list_queues(request)
            case messages.ReadKeys():
                return self.read_keys(request)
        raise AssertionError(request)

    def events(self, prefix: str, after: int) -> list[tuple[int, list[Event]]]:
        """Those under a prefix of later revisions."""
        told = []
        for revision, events in enumerate(self.history[after - 1 :], start=after + 1):
            ours = [event for event in events if event.kv.key.startswith(prefix)]
            if ours:
                told.append((revision, ours))
        return told

    def back_up(self) -> None:
        self._backup = self.revision, dict(self.keys), dict(self.leases)

    def restore(self, time: float) -> bool:
        """Go back to the backup, where there is one; leases live on from now, as when etcd starts."""
        if self._backup is None or self._backup[0] == self.revision:
            return False
        self.revision, self.keys, leases = self._backup[0], dict(self._backup[1]), self._backup[2]
        self.leases = {lease: (ttl, time + ttl) for lease, (ttl, _) in leases.items()}
        self.history = self.history[: self.revision - 1]
        self.epoch += 1
        for listener in list(self.listeners.values()):
            listener()
        return True


class ForgetfulEtcd(RestorableEtcd):
    """Now and then a lease's list lacks keys."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance

    def list_lease(self, lease_id: int) -> messages.LeaseKeys:
        ttl, keys = super().list_lease(lease_id)
        if ttl >= 0 and self._chance.random() < 0.1:
            keys = [key for key in keys if self._chance.random() < 0.5]
        return messages.LeaseKeys(ttl, keys)
