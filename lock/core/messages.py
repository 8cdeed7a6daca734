"""What the core wants done, and what it is answered: plain values that nothing but a driver turns into calls.

`known` is always the highest revision that was known when the request was made: an answer with a lower one comes from
an etcd that was restored from a backup.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from lock.model import KeyValue

if TYPE_CHECKING:
    from lock.core.queue import Position, Ticket, Waiter

MOST = 100  # keys in one transaction; etcd takes up to 127, unless it is told otherwise


class Create(NamedTuple):
    """Write a key unless it exists."""

    key: str
    value: bytes
    lease_id: int
    prefix: str = ""  # counted in the same step after the write; "": nothing is
    lists: bool = False  # it is listed instead
    if_free: bool = False  # write only if nothing stands under the prefix
    finds_position: bool = False  # the last key before it is read


class Written(NamedTuple):
    """The answer: the key, None if it was not written; how many the prefix has; the list; if the key stood before.

    `before` is the last key before it, None where that was not found.
    """

    kv: KeyValue | None
    number: int | None
    keys: list[KeyValue] | None
    revision: int
    was_there: bool = False
    before: KeyValue | None = None


class Delete(NamedTuple):
    """Delete each key if it was created at this revision; at any, where it is None. The tickets are those of the keys,
    None where a key has none.
    """

    keys: tuple[tuple[str, int | None], ...]
    tickets: tuple[Ticket | None, ...]
    known: int


class Deleted(NamedTuple):
    """The answer: which keys were there."""

    there: list[bool]
    revision: int


class ListQueue(NamedTuple):
    """List the keys under a prefix; the answer is a `Snapshot`."""

    prefix: str
    known: int
    epoch: object = None  # of the watch that the queue is followed by
    only_first: bool = False  # the first key alone


class FindPosition(NamedTuple):
    """Read the key of a ticket and one before it, in one step: the one that it knows, or else the last one."""

    position: Position
    known: int


class PositionFound(NamedTuple):
    """The answer: the key of the ticket's name, whenever it was created, and the one before; None: it is not there."""

    own: KeyValue | None
    before: KeyValue | None
    revision: int


class ReadKeys(NamedTuple):
    """Read keys, in one step; each with the ticket whose key it should be, or None for a stray."""

    tickets: Mapping[str, Ticket | None]
    known: int


class Found(NamedTuple):
    """The answer: those of the keys that are there."""

    kvs: Mapping[str, KeyValue]
    revision: int


class ListLease(NamedTuple):
    """Ask for the keys of the session's lease; `tickets` are those of this moment."""

    tickets: Mapping[str, Ticket]


class LeaseKeys(NamedTuple):
    """The answer: -1 where etcd does not know the lease."""

    ttl: int
    keys: Collection[str]


class TimeToLive(NamedTuple):
    """Ask what is left of a lease: the holder's, for an error message, or one's own, where a key is gone."""

    lease_id: int


class Follow(NamedTuple):
    """Watch a prefix, instead of a key under it."""

    prefix: str


class FollowKey(NamedTuple):
    """Watch one key under a prefix, instead of another one."""

    prefix: str
    key: str
    position: Position
    known: int  # the revision as of which the key was there: what happened later has to be told


class Unfollow(NamedTuple):
    """Watch a prefix no more, or the key under it."""

    prefix: str


class Renew(NamedTuple):
    """Renew the lease now: there is a sign that it may be gone."""


class Outbox:
    """What leaves the core: a driver takes what stands in here, and empties it."""

    def __init__(self) -> None:
        self.commands: list[Command] = []  # to be done, in this order
        self.changes: list[Waiter] = []  # those that changed, to be woken in this order
        self.is_early = False  # `Core.poll` has to be called sooner than it has said


Request = Create | Delete | ListQueue | FindPosition | ReadKeys | ListLease | TimeToLive
Command = Request | Follow | FollowKey | Unfollow | Renew
