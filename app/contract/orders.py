"""An order: one entry of the ledger, the list to which every purchase appends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import msgspec

Token = int | list[int]  # a create revision; under a `CohortMutex` [create revision, turn], because JSON has no tuples
encode = msgspec.json.Encoder().encode  # an order as Redis keeps it, in bytes


def token_in(fence: str | None) -> str | None:
    """The token of a fence as people read it, such as "7" or "7.2"; `None` if no token was seen yet.

    Without the zeros by which Redis compares it, and without the name of the guard that numbers it.
    """
    parts = [int(part) for part in (fence or "0").rpartition(":")[2].split(".")]
    return ".".join(map(str, parts)) if parts[0] else None


@dataclass(frozen=True)
class Order:
    """One entry of the ledger.

    Attributes:
        instance: which instance wrote it.
        token: the fencing token under which it was written, if the guard has one.
        at_ms: milliseconds since the epoch, by the instance's clock; in a record since the record's start.
        item: what was bought.
    """

    order: str
    buyer: str
    instance: str = ""
    guard: str = ""
    token: Any = None  # a `Token`, or the tuple that becomes one in JSON
    at_ms: float = 0
    item: str = "1"

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Order:
        """The order in a decoded entry; ignores unknown members."""
        return cls(**{each.name: entry[each.name] for each in fields(cls) if each.name in entry})

    @classmethod
    def decode(cls, entry: str) -> Order:
        """The order in an entry as Redis has it."""
        return cls.of(json.loads(entry))

    def encode(self) -> str:
        """The entry as Redis has it."""
        return encode(self).decode()
