"""A core and the simulated etcd, driven by hand: one answer after the other."""

from __future__ import annotations

import math
from typing import Any

from lock.core.acquisition import Acquisition, Send, Sleep
from lock.core.core import Core
from lock.core.messages import Delete, Follow, FollowKey, ListLease, ListQueue, ReadKeys
from tests.lock.core.small_world import TTL_S, Etcd, Want


class Session:
    """A core, and the simulated etcd that answers at once."""

    def __init__(self, etcd: Etcd, number: int) -> None:
        self.etcd = etcd
        self.core = Core(number, TTL_S, 0.0, owner=f"session {number}")
        etcd.grant(number, TTL_S, 0.0)

    def acquisition(self, want: Want | None = None, deadline: float = math.inf, **options: Any) -> Acquisition:
        """Of a wait that follows the queue, if not told otherwise."""
        want, options = want or Want(), {"follows": True, **options}
        (name,) = want.names
        return Acquisition(
            self.core, name[:-1], name, want.terms, want.value, 0.0, deadline=deadline, timeout=1.0, **options
        )  # fmt: skip

    def go(self, acquisition: Acquisition, now: float = 0.0) -> Sleep | None:
        """Until it holds, waits or raises."""
        for _ in range(20):
            step = acquisition.next(now)
            if not isinstance(step, Send):
                return step
            answered: Any = acquisition.answered
            answered(step.request, self.etcd.serve(step.request, self.core.lease_id), now)
        raise AssertionError("it asks again and again")

    def work(self, now: float) -> list[Any]:
        """Carry out all that is due; what was commanded."""
        done: list[Any] = []
        self.core.poll(now)
        while self.core.outbox.commands:
            command = self.core.outbox.commands.pop(0)
            done.append(command)
            if isinstance(command, Delete | ListQueue | ListLease | ReadKeys):
                self.core.answered(command, self.etcd.serve(command, self.core.lease_id), now)
                self.core.poll(now)
            elif isinstance(command, Follow):
                self.core.following.handle_event(command.prefix, [], now)
                self.core.poll(now)
            elif isinstance(command, FollowKey) and command.known != self.etcd.revision:
                self.core.predecessors.handle_event(command.position, [], now)
                self.core.poll(now)
        return done


def request_of(acquisition: Acquisition, now: float = 0.0) -> Any:
    """What it sends now."""
    step = acquisition.next(now)
    assert isinstance(step, Send)
    return step.request
