"""What was opened, known outside Redis as well: one key in etcd with each item's generation and stock.

A sale that is closed until a set time has a generation too, which no purchase ever expects, and fixes that of its
opening: one more. So an opening that is repeated is the same opening.

A Redis that lost its data looks like one that never had any, and the fence is gone with the data. So a purchase names
the generation that it expects, and Redis without that generation sells nothing before a reset.

The order of writes makes a crash between them safe. A reset writes to etcd first: until Redis follows, a purchase that
expects the new generation is refused. The very first opening writes to Redis first: until etcd follows, no purchase
knows the generation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Literal, NamedTuple

from lock import Client


class Opened(NamedTuple):
    """One opening of an item, or its closing until the next one.

    Attributes:
        generation: rises from opening to opening.
        stock: how many pieces it begins with.
        opens_at_ms: when a closed sale opens, in milliseconds since the epoch; None if no time is set.
    """

    generation: str
    stock: int
    state: Literal["open", "closed"] = "open"
    opens_at_ms: int | None = None

    @property
    def is_open(self) -> bool:
        return self.state == "open"

    @property
    def opening(self) -> Opened:
        """What a closed sale will be when it is open."""
        return Opened(str(int(self.generation) + 1), self.stock)

    @property
    def opens_at(self) -> str | None:
        """`opens_at_ms` as RFC 3339 has it, in UTC."""
        if self.opens_at_ms is None:
            return None
        at = datetime.fromtimestamp(self.opens_at_ms / 1000, timezone.utc)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


Openings = Mapping[str, Opened]


class OpeningRecord:
    """The last opening of each item of one sale, in etcd.

    Every method raises `EtcdError` where etcd does not answer within `timeout` seconds (the client's own if None).

    Attributes:
        key: where it is.
    """

    def __init__(self, client: Client, sale: str, *, timeout: float | None = None) -> None:
        self._client = client
        self.key = f"sale/{sale}/opened"  # not below flash-sale/SALE/, which is the queue of the mutex
        self._timeout = timeout

    def read(self) -> Openings:
        """What was opened last; nothing if the sale never was."""
        found = self._client.get_prefix(self.key, timeout=self._timeout).keys
        return next((_decode(kv.value) for kv in found if kv.key == self.key), {})

    def update(self, change: Callable[[Openings], Openings]) -> Openings:
        """Write what `change` makes of the record, again if another writer was faster; what stands there then."""
        while True:
            found = self._client.get_prefix(self.key, timeout=self._timeout).keys
            before = next((kv for kv in found if kv.key == self.key), None)
            known = {} if before is None else _decode(before.value)
            changed = {**known, **change(known)}
            if changed == known:
                return known
            value = _encode(changed)
            if before is None:
                written = self._client.create(self.key, value, 0, timeout=self._timeout)
            else:
                written = self._client.replace(before, value, timeout=self._timeout)
            if written is not None and written.value == value:
                return changed


def _encode(openings: Openings) -> bytes:
    return json.dumps({item: each[:2] if each.is_open else each for item, each in openings.items()}).encode()


def _decode(value: bytes) -> dict[str, Opened]:
    return {item: Opened(*each) for item, each in json.loads(value).items()}
