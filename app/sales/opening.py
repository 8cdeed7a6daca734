"""The record of the opening in etcd: one key with the generation and the stock of a sale.

A Redis that lost its data looks like one that never had any, and the fence is gone with the data. So a purchase names
the generation that it expects, and Redis without that generation sells nothing before a reset.

A sale that is closed until a set time has a generation too, which no purchase expects. Its opening has the next one, so
an opening that is repeated is the same opening.

The order of writes makes a crash between them safe. A reset writes to etcd first: until Redis follows, a purchase that
expects the new generation is refused. The first opening writes to Redis first: until etcd follows, no purchase knows
the generation.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from typing import NamedTuple

from lock import Client, KeyValue


class Opened(NamedTuple):
    """One opening of a sale, or its closing until the next one.

    Attributes:
        generation: rises from opening to opening; all items have the same.
        stock: initial pieces of each item.
        opens_at_ms: when a closed sale opens, in milliseconds since the epoch; None if no time is set.
    """

    generation: str
    stock: int
    is_open: bool = True
    opens_at_ms: int | None = None

    @property
    def opening(self) -> Opened:
        """The opening of a closed sale."""
        return Opened(str(int(self.generation) + 1), self.stock)

    @property
    def opens_at(self) -> str | None:
        """`opens_at_ms` in UTC, in the format of RFC 3339."""
        if self.opens_at_ms is None:
            return None
        at = datetime.fromtimestamp(self.opens_at_ms / 1000, timezone.utc)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class OpeningRecord:
    """The last opening of one sale, under one `key` in etcd.

    Every method raises `EtcdError` if etcd does not answer within `timeout` seconds (the client's own if None).
    """

    def __init__(self, client: Client, sale: str, *, timeout: float | None = None) -> None:
        self.client = client
        self.key = f"sale/{sale}/opening"  # not below flash-sale/SALE/, the queue of the mutex
        self._timeout = timeout

    def read(self) -> Opened | None:
        """The last opening; None if the sale was never opened."""
        return self.look()[0]

    def look(self) -> tuple[Opened | None, int]:
        """The same, and the revision of etcd."""
        found, revision = self._find()
        return _decode(found), revision

    def update(self, change: Callable[[Opened | None], Opened]) -> Opened:
        """Write the change, again if another writer was faster; return the record."""
        while True:
            before, _ = self._find()
            known = _decode(before)
            changed = change(known)
            if changed == known:
                return changed
            value = json.dumps(changed).encode()
            if before is None:
                written = self.client.create(self.key, value, 0, timeout=self._timeout)
            else:
                written = self.client.replace(before, value, timeout=self._timeout)
            if written is not None and written.value == value:
                return changed

    def _find(self) -> tuple[KeyValue | None, int]:
        revision, found = self.client.get_prefix(self.key, timeout=self._timeout)
        return next((kv for kv in found if kv.key == self.key), None), revision


def _decode(found: KeyValue | None) -> Opened | None:
    return Opened(*json.loads(found.value)) if found else None
