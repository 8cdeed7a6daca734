"""A fair, fenced mutex: one holder per name over all processes, first come first served.

Error handling: `acquire` either returns a hold or raises, so the body of ``with`` never runs unlocked. A wait that ends
early leaves no key behind (see `lock.recipes.acquisition`).

A lock service alone cannot keep a paused holder from writing after its lease has ended, for nobody can tell it so in
time. What can is the resource: let it refuse a token lower than the highest it has seen (M. Kleppmann, "How to do
distributed locking", 2016), when it is read as well as when it is written.
"""

from __future__ import annotations

from functools import partial

from lock.model import Contender
from lock.queue.contenders import contenders_of
from lock.queue.names import queue_prefix
from lock.recipes.acquisition import Acquisition, HoldT_co
from lock.recipes.hold import Hold
from lock.recipes.lockable import Lockable
from lock.runtime.clock import check_number, deadline
from lock.session.session import Session


class Mutex(Lockable):
    """One name, to be locked by any thread; costs nothing until used and may be shared.

    Each acquisition queues with a key of its own, so threads of one process compete like strangers. It is not
    reentrant: a thread that acquires twice waits for itself.

    Args:
        session: the process's session.
        name: slash-separated, without empty parts. A name waits for everything below it too: see `lock.queue.names`.
        max_hold: seconds after which a hold gives itself up, so that a critical section that hangs in a living process
            does not block everyone else; None for never. (The session's `ttl` is what happens when the process dies.)

    Raises:
        InvalidName: the name has an empty part, is empty, or is longer than 4096 bytes.
        ValueError: `max_hold` is not positive.
    """

    def __init__(self, session: Session, name: str, *, max_hold: float | None = None) -> None:
        if max_hold is not None:
            check_number(max_hold, lambda seconds: seconds > 0, "max_hold is seconds, more than 0, or None")
        self.session = session
        self.name = name
        self.max_hold = max_hold
        self._prefix = queue_prefix(name)
        self._waiting: set[Acquisition[Hold]] = set()

    def acquire(self, *, timeout: float | None = None) -> Hold:
        """Wait for the lock; use the result in ``with``, or release it.

        Args:
            timeout: seconds to wait; None waits for as long as the session lives, and 0 takes the lock if it is free,
                with the few milliseconds that this needs. (`try_acquire` returns None instead of raising.)

        Raises:
            ValueError: `timeout` is negative; TypeError: it is no number.
            LockTimeout: not acquired in time; the message names holder, key and the TTL left of its lease.
            LockCancelled: the wait was cancelled from another thread.
            LockLost: the key that queued was deleted by somebody else.
            SessionLost: the session is over.
            EtcdUnavailable: etcd did not confirm a place in the queue in time.
        """
        until = deadline(timeout)
        return self._wait(self.new_acquisition(), until)

    def try_acquire(self) -> Hold | None:
        """The lock if it is free at this moment, else None; nobody's place in the queue is touched.

        Raises:
            LockCancelled: the session is draining.
            SessionLost: the session is over.
            EtcdUnavailable: etcd did not answer in time.
        """
        return self.new_acquisition().attempt()

    def cancel(self) -> None:
        """Wake all threads that wait in `acquire` of this object at this moment with `LockCancelled`; holds go on."""
        self.session.client.check_process()
        for acquisition in list(self._waiting):
            acquisition.cancel()

    def locked(self) -> bool:
        """Whether it is held at this moment, by any client; asks etcd. For showing: it may be over when you read it.

        Raises:
            EtcdUnavailable: etcd did not answer in time.
        """
        return self.session.client.has_keys(self._prefix)

    def contenders(self) -> list[Contender]:
        """Who holds and who waits, holder first, with the seconds that their leases have left; asks etcd.

        Raises:
            EtcdUnavailable: etcd did not answer in time.
        """
        return contenders_of(self.session.client, self._prefix)

    # For the recipes

    def new_acquisition(self) -> Acquisition[Hold]:
        """One attempt, not begun."""
        return Acquisition(self.session, self.name, self._prefix, partial(Hold, max_hold=self.max_hold))

    def _wait(self, acquisition: Acquisition[HoldT_co], until: float) -> HoldT_co:
        self._waiting.add(acquisition)
        try:
            return acquisition.run(until)
        finally:
            self._waiting.discard(acquisition)
