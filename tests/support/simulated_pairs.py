"""Threads of the simulation that take two names in one step: their keys share a create revision."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from lock.core.acquisition import Acquisition, Terms
from lock.core.queue import Ticket
from lock.core.together import Together
from lock.errors import LockError

if TYPE_CHECKING:
    from tests.support.simulation import Process, World

ABOVE = "mutex/"
NAMES = ("mutex/a/", "mutex/b/")  # in whose queues single threads stand, too, and both in that above


def add_pairs(world: World, seed: int) -> None:
    """In some worlds there are such threads; by another chance, so that the others stay as they are."""
    if ABOVE in world.names and random.Random(seed).random() < 0.5:
        world.names.update({name: [Terms()] for name in NAMES})
        for process in world.processes:
            process.actors += [Pair(process)]


class Pair:
    """A thread that takes both names if they are free, and tries again later if not."""

    def __init__(self, process: Process) -> None:
        self.process, self.world = process, process.world
        self.is_done = False
        self.begin()

    def begin(self) -> None:
        process = self.process
        if not self.world.trouble or not process.is_alive or process.core.failure is not None:
            self.is_done = True
            return
        together, now = Together(), process.now()
        try:
            for name in NAMES:
                acquisition = Acquisition(
                    process.core, name, name, Terms(), b"{}", now, deadline=now, timeout=1.0, owner=self, tries=True
                )
                together.acquisitions.append(acquisition)
            step = together.begin(now)
        except LockError:  # the session is over, or drains
            self.is_done = True
            return
        if step is None:
            self.leave(together)
            return
        told = partial(self.told, together, step.request)
        process.send(
            step.request, partial(told, together.answered), partial(told, together.failed), together.unanswered
        )

    def told(self, together: Together, request: Any, tell: Callable[..., object], what: object) -> None:
        tell(request, what, self.process.now())
        try:
            is_held = together.is_held()
        except LockError:
            is_held = False
        if not is_held:
            self.leave(together)
            return
        tickets = [acquisition.ticket for acquisition in together.acquisitions]
        self.world.require(len({ticket.created for ticket in tickets}) == 1, "a pair was not created in one step")
        for name, ticket in zip(NAMES, tickets, strict=True):
            ticket.waiter = None
            self.process.believe(name, Terms(), ticket)
        seconds = self.world.chance.choice([0.0, 0.01, 0.1])
        self.world.at(seconds, lambda: self.process.deliver(lambda: self.release(tickets)))

    def release(self, tickets: list[Ticket]) -> None:
        process, core = self.process, self.process.core
        for ticket in tickets:
            process.over(ticket)
        waits = self.world.chance.random() < 0.7
        deletions = core.deletions
        groups, _, _ = deletions.release_all(tickets, process.now(), waits=waits)
        for request in groups:
            tell = lambda told, what, request=request: told(request, what, process.now())  # noqa: E731
            answered, failed = partial(tell, deletions.answered), partial(tell, deletions.failed)
            process.send(request, answered, failed, partial(deletions.doubt, request))
        self.later()

    def leave(self, together: Together) -> None:
        for acquisition in together.acquisitions:
            acquisition.leave(self.process.now())
        self.later()

    def later(self) -> None:
        self.world.at(self.world.chance.random() * 0.2, lambda: self.process.deliver(self.begin))
