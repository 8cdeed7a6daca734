"""What can go wrong, as types: docs/lock.md draws the tree.

Every message says what happened, to which key, and what to do.
"""

from __future__ import annotations

from lock.model import Contender


class LockError(Exception):
    """Base of everything this package raises on purpose."""


class InvalidName(LockError, ValueError):
    """Not the name of a lock: empty, too long, or with an empty part, which would make queues overlap."""


class LockTimeout(LockError, TimeoutError):
    """The lock was not acquired in time; the key that queued for it is deleted.

    Attributes:
        holder: the contender at the head of the queue, or `None` if etcd did not say.
    """

    def __init__(self, message: str, *, holder: Contender | None = None) -> None:
        super().__init__(message)
        self.holder = holder

    @classmethod
    def after(cls, seconds: float, name: str, holder: Contender | None, trouble: str | None) -> LockTimeout:
        """A wait for the lock of this name has ended; `trouble` is why the holder may be unknown."""
        message = f"lock {name!r} not acquired within {seconds:.1f} s; "
        if holder is None:
            return cls(f"{message}holder unknown{f': {trouble}' if trouble else ''}")
        message += f"held by {holder}"
        if holder.kind is None and "/" in holder.key.removeprefix(f"{name}/"):
            message += f". That key belongs to a name below {name!r}: a name waits for all that is below it"
        return cls(message, holder=holder)


class LockCancelled(LockError):
    """Another thread cancelled the wait; the key that queued is deleted."""


class LockLost(LockError):
    """The hold or the place in the queue is gone: the key was deleted, its lease ended, or `max_hold` has passed."""


class HoldExpired(LockLost):
    """The hold has lasted for `max_hold` seconds and was given up."""


class SessionLost(LockLost):
    """The session's lease has expired, was revoked, or could not be kept alive: make a new Session."""


class AdmissionConflict(LockError, ValueError):
    """The first key of the queue goes by other terms than this one, such as another limit of a semaphore."""


class UpgradeRefused(LockError):
    """A reader wants to write without leaving the queue: two that do so wait for each other (kazoo issue 649)."""


class NotHeld(LockError, RuntimeError):
    """The hold was released before. (`threading.Lock` raises a RuntimeError.)"""


class ForkedError(LockError):
    """A client, session or hold crossed a fork; the child has to connect for itself (gRPC does not survive a fork)."""


class EtcdError(LockError):
    """etcd refused a call; the message carries its words."""


class EtcdUnavailable(EtcdError, ConnectionError):
    """No endpoint answered before the deadline. A write may have happened all the same."""


class EtcdDenied(EtcdError, PermissionError):
    """etcd does not let this user in, or not to this key."""


class LeaseNotFound(EtcdError):
    """etcd no longer knows the lease."""
