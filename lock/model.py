"""Plain values that etcd's answers are turned into; nothing here knows of gRPC."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from typing import NamedTuple

_OWNER_LENGTH = 200  # of another client's value, which may be a megabyte


class KeyValue(NamedTuple):
    """A key as etcd has it. The `create_revision` of a lock's key is the fencing token."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease_id: int


class Snapshot(NamedTuple):
    """All keys under a prefix as of one revision, the oldest create revision first."""

    revision: int
    keys: list[KeyValue]


class Event(NamedTuple):
    """One change of one key. Of a deleted key etcd tells no more than `key` and `mod_revision`."""

    deleted: bool
    kv: KeyValue


class Lease(NamedTuple):
    """A lease as the server granted it; `ttl` in seconds, which may be more than was asked for."""

    id: int
    ttl: int


class LeaseStatus(NamedTuple):
    """What is left of a lease: seconds left (-1 when it is gone), and seconds granted."""

    ttl: int
    granted_ttl: int


class Declaration(NamedTuple):
    """What a key of ours says of the holds that may stand beside it; nothing if it is exclusive."""

    kind: str | None = None
    limit: int | None = None


UNDECLARED = Declaration()


@dataclass(frozen=True)
class Contender:
    """One key of a queue.

    Attributes:
        key: its name in etcd.
        token: its create revision: its place in the queue, and the fencing token once it holds.
        lease_id: the lease it is bound to, 0 for none.
        owner: the session's name, host, process and thread; for a key of another client the beginning of its value.
            What is not printable is shown as an escape, in `session` as well.
        session: the session's name alone, `None` for a key of another client.
        queued_s: seconds since it queued by the clocks of two machines, `None` if the key does not tell.
        ttl_s: seconds until its lease ends if it is not renewed, `None` if etcd was not asked or did not say in time.
        kind: what the key declares itself to be, such as "read"; `None` for an exclusive one.
        limit: of the semaphore that the key belongs to, `None` for other recipes.
        holds: whether it is admitted, so that it holds and does not wait.
    """

    key: str
    token: int
    lease_id: int
    owner: str
    session: str | None = None
    queued_s: float | None = None
    ttl_s: int | None = None
    kind: str | None = None
    limit: int | None = None
    holds: bool = False

    @classmethod
    def of(cls, kv: KeyValue, ttl_s: int | None = None, *, holds: bool = False) -> Contender:
        """The contender that wrote a key, whichever client it used; `ttl_s` as etcd told it, if it was asked."""
        kind, limit = declaration(kv)
        try:
            who = json.loads(kv.value)
            owner = printable(cut(f"{who['session']} (host {who['host']}, pid {who['pid']}, thread {who['thread']})"))
            session = printable(cut(str(who["session"])))
            queued_s = max(time.time() - float(who["since"]), 0.0)
            if not math.isfinite(queued_s):
                raise ValueError("no time at all")
            return cls(kv.key, kv.create_revision, kv.lease_id, owner, session, queued_s, ttl_s, kind, limit, holds)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):  # other clients may write anything
            value = kv.value.decode("utf-8", "replace")
            owner = f"another client ({cut(value)!r})" if value else "another client"  # Go's client and etcdctl: empty
            return cls(kv.key, kv.create_revision, kv.lease_id, owner, ttl_s=ttl_s, kind=kind, holds=holds)

    def __str__(self) -> str:
        left = "" if self.ttl_s is None else f" with {max(self.ttl_s, 0)} s of its TTL left"
        return f"{self.owner}, key {cut(self.key)!r}, lease {self.lease_id:x}{left}"


def declaration(kv: KeyValue) -> Declaration:
    """What a key says of the holds that may stand beside it, whichever client wrote it."""
    if b'"kind"' not in kv.value:
        return UNDECLARED
    try:
        fields = json.loads(kv.value)
        kind, limit = fields["kind"], fields.get("limit")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # other clients may write anything
        return UNDECLARED
    return Declaration(kind, limit if isinstance(limit, int) else None) if isinstance(kind, str) else UNDECLARED


def cut(text: str) -> str:
    """The beginning of a text that another client wrote: it may be a megabyte."""
    return text if len(text) <= _OWNER_LENGTH else f"{text[:_OWNER_LENGTH]}..."


def printable(text: str) -> str:
    """The text on one line, safe on a terminal: another client may have written escape sequences."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
