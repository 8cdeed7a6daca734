"""What was opened, known outside Redis as well: one key in etcd with each item's generation and stock.

A Redis that lost its data looks like one that never had any, and the fence is gone with the data. So a purchase names
the generation that it expects, and Redis without that generation sells nothing before a reset.

The order of writes makes a crash between them safe. A reset writes to etcd first: until Redis follows, a purchase that
expects the new generation is refused. The very first opening writes to Redis first: until etcd follows, no purchase
knows the generation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from lock import Client


class Opened(NamedTuple):
    """One opening of an item: `generation` rises from opening to opening, `stock` is how many pieces it began with."""

    generation: str
    stock: int


Openings = Mapping[str, Opened]


class OpeningRecord:
    """The last opening of each item of one sale, in etcd.

    Every method raises `EtcdError` where etcd does not answer within `timeout` seconds (the client's own if None).
    """

    def __init__(self, client: Client, sale: str, *, timeout: float | None = None) -> None:
        self._client = client
        self._key = f"sale/{sale}/opened"  # not below flash-sale/SALE/, which is the queue of the mutex
        self._timeout = timeout

    def read(self) -> Openings:
        """What was opened last; nothing if the sale never was."""
        found = self._client.get_prefix(self._key, timeout=self._timeout).keys
        return next((_decode(kv.value) for kv in found if kv.key == self._key), {})

    def update(self, change: Callable[[Openings], Openings]) -> Openings:
        """Write what `change` makes of the record, again if another writer was faster; what stands there then."""
        while True:
            found = self._client.get_prefix(self._key, timeout=self._timeout).keys
            before = next((kv for kv in found if kv.key == self._key), None)
            known = {} if before is None else _decode(before.value)
            changed = {**known, **change(known)}
            if changed == known:
                return known
            value = json.dumps(changed).encode()
            if before is None:
                written = self._client.create(self._key, value, 0, timeout=self._timeout)
            else:
                written = self._client.replace(before, value, timeout=self._timeout)
            if written is not None and written.value == value:
                return changed


def _decode(value: bytes) -> dict[str, Opened]:
    return {item: Opened(*each) for item, each in json.loads(value).items()}
