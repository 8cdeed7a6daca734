"""Tickets of a core without any etcd: the test says what etcd answers."""

from __future__ import annotations

from typing import Any, TypeVar

from lock.core.admission import EXCLUSIVE, Admission
from lock.core.core import Core
from lock.core.messages import ListQueue, Written
from lock.core.queue import Stage, Ticket
from lock.errors import EtcdDenied, EtcdUnavailable
from lock.model import Event, KeyValue, Snapshot

T = TypeVar("T")
LEASE, TTL_S = 0xA, 10
AWAY, DENIED = EtcdUnavailable("away"), EtcdDenied("no right")


def core_of(revision: int = 1) -> Core:
    core = Core(LEASE, TTL_S, 0.0, owner="s")
    core.revisions.highest = revision
    return core


def key(name: str, created: int, lease_id: int = LEASE) -> KeyValue:
    return KeyValue(name, b"", created, created, lease_id)


def written(core: Core, prefix: str, *, number: int | None = 1, rule: Admission = EXCLUSIVE) -> Ticket:
    """A ticket whose key was created at the next revision, as one of so many: HELD if it is alone, else it waits."""
    ticket = core.begin(prefix, "", rule, 0.0)
    core.creation(ticket, b"", if_free=False)
    created = core.revisions.highest + 1
    core.written(ticket, Written(key(ticket.key, created), number, None, created), 0.0)
    if ticket.stage is Stage.QUEUED:
        core.following.join(ticket.queue, 0.0)  # as its acquisition does
    return ticket


def deleted(name: str, revision: int) -> Event:
    return Event(True, KeyValue(name, b"", 0, revision, 0))


def commands_of(core: Core, kind: type[T], now: float | None = None) -> list[T]:
    """What was commanded of this kind, once what is due now was done; all commands are taken."""
    if now is not None:
        core.poll(now)
    found: list[Any] = [command for command in core.outbox.commands if isinstance(command, kind)]
    core.outbox.commands.clear()
    return found


def listed(core: Core, prefix: str, revision: int, *keys: KeyValue, now: float = 0.0) -> None:
    """The queue is watched, and was listed then."""
    core.following.join(core.queues[prefix], now)
    core.following.handle_event(prefix, [], now)
    for request in commands_of(core, ListQueue, now):
        core.answered(request, Snapshot(revision, list(keys)), now)
