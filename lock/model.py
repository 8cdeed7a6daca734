"""Plain values that etcd's answers are turned into; nothing here knows of gRPC."""

from __future__ import annotations

from typing import NamedTuple


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
