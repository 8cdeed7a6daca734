"""What leaves the core: what its driver is to do, whom it is to wake, and that it is to look again sooner."""

from lock.core.messages import Command
from lock.core.queue import Waiter


class Outbox:
    """A driver takes what stands in here, and empties it."""

    def __init__(self) -> None:
        self.commands: list[Command] = []  # in this order
        self.changes: list[Waiter] = []  # those that changed, to be woken; likewise
        self.is_early = False  # `Core.poll` has to be called sooner than it has said
