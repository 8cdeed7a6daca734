"""Several locks in one step: all of their keys are created if all of their queues are free, or none is.

To create them is an attempt: one request, whose answer tells. Where it fails, its tickets are left, and their names are
locked one after the other. What is created together has one create revision, so in the queue of a name above them both
keys stand at one place; a view takes whole revisions, so it never has one without the other.
"""

from collections.abc import Callable, Sequence

from lock.core.acquisition import Acquisition, Send
from lock.core.messages import Create, CreateAll, Written
from lock.core.queue import Stage
from lock.errors import EtcdError, EtcdUnavailable, LockCancelled


class Together:
    """Acquisitions that try, each on its own name, sent as one; a driver tells it what it tells one of them."""

    def __init__(self) -> None:
        self.acquisitions: list[Acquisition] = []  # to be added before `next`
        self._is_begun = False

    def next(self, now: float) -> Send | None:
        """The request that creates all keys; None once it was answered, or where one of them was cancelled."""
        if self._is_begun:
            return None
        self._is_begun = True
        creates: list[Create] = []
        timeouts: list[float] = []
        try:
            for acquisition in self.acquisitions:
                step = acquisition.next(now)
                if not isinstance(step, Send) or not isinstance(step.request, Create):
                    return None
                creates.append(step.request)
                timeouts.append(step.timeout)
        finally:
            if len(creates) < len(self.acquisitions):
                self._all_failed(creates, EtcdUnavailable("was not sent"), now)
        return Send(CreateAll(tuple(creates)), min(timeouts))

    def wake_by(self, wake: Callable[[], object] | None) -> None:
        """It never sleeps."""

    def is_held(self) -> bool:
        """Whether all of them hold; raises where one was cancelled."""
        tickets = [acquisition.ticket for acquisition in self.acquisitions]
        for ticket in tickets:
            failure = ticket.again()
            if isinstance(failure, LockCancelled):
                raise failure
        return all(ticket.stage is Stage.HELD for ticket in tickets)

    def answered(self, request: CreateAll, answer: list[Written], now: float) -> None:
        for acquisition, create, written in zip(self.acquisitions, request.creates, answer, strict=True):
            acquisition.answered(create, written, now)

    def failed(self, request: CreateAll, error: EtcdError, now: float) -> None:
        self._all_failed(request.creates, error, now)

    def unanswered(self, request: CreateAll) -> None:
        for acquisition in self.acquisitions:
            acquisition.unanswered(request)

    def _all_failed(self, creates: Sequence[Create], error: EtcdError, now: float) -> None:
        for acquisition, create in zip(self.acquisitions, creates, strict=False):
            acquisition.failed(create, error, now)
