"""The items, the reservations and the shop's ledger of one way to sell, in Redis. Each step is one script.

A reservation is *held* until it is *ordered* or *ended*; both are for ever. An item has a number, which tells who paid
for it.
"""

from __future__ import annotations

import json
from pathlib import Path

import redis

from app.contract.keys import key_prefix
from app.sales.purchase import fence_text
from app.sales.redis_client import Script
from app.sales.refusals import FencedOff
from labs.payment.contract import Order, Outcome, Payment

RESERVED_MS = 1500  # real shops give ten minutes
RESERVE, OVERDUE, GIVE_BACK, CONFIRM, READ, WRITE = (
    Script(Path(__file__).with_name("lua") / f"{name}.lua")
    for name in ("reserve", "overdue", "give_back", "confirm", "read", "write")
)


class Shelf:
    """The shelf of a way to sell, in one sale; every method may raise `redis.RedisError`."""

    def __init__(self, client: redis.Redis, sale: str, way: str) -> None:
        self._client, self._prefix = client, f"{key_prefix(sale)}payment:{way}:"
        names = ("items", "held", "unsettled", "orders", "fence")
        self._items, self._held, self._unsettled, self._orders, self._fence = (self._prefix + name for name in names)

    def open(self, items: int) -> None:
        """Put these many items on an empty shelf, and begin an empty ledger."""
        if old := self._client.keys(self._prefix.replace("{", "[{]") + "*"):
            self._client.delete(*old)
        self._client.rpush(self._items, *range(1, items + 1))

    # For ways that reserve

    def reserve(self, payment: Payment) -> Outcome | None:
        """Take an item for `RESERVED_MS`, and note the reservation; why there is none, or `None`."""
        keys = [self._items, self._held, self._reservation(payment.key)]
        state = RESERVE.run(self._client, keys, [payment.key, RESERVED_MS])
        return None if state in ("held", "ordered") else Outcome(state)

    def confirm(self, key: str, *, checked: bool) -> bool:
        """Write the order of a reservation; False if it is `checked` and no longer held."""
        keys = [self._held, self._orders, self._reservation(key)]
        return bool(CONFIRM.run(self._client, keys, [key, "checked" if checked else ""]))

    def give_back(self, key: str) -> None:
        """End a reservation if it is still held; its item is for sale again, and its charge unsettled."""
        GIVE_BACK.run(self._client, [self._items, self._held, self._unsettled, self._reservation(key)], [key])

    def overdue(self) -> list[str]:
        """The payments whose reservations are held beyond their end."""
        return list(OVERDUE.run(self._client, [self._held], []))

    def unsettled(self) -> list[str]:
        """The payments without an item whose money may have been taken, or may yet be."""
        return sorted(map(str, self._client.smembers(self._unsettled)))

    def settle(self, key: str) -> None:
        """Note that the payment was given back or declined."""
        self._client.srem(self._unsettled, key)

    # For the holder of a lock

    def read(self, payment: Payment, fence: int) -> str | None:
        """The next item, `None` if nothing is left; raises `FencedOff`."""
        keys = [self._items, self._fence, self._reservation(payment.key)]
        return _accepted(READ.run(self._client, keys, [fence_text(fence)])) or None

    def write(self, payment: Payment, item: str, fence: int) -> None:
        """Sell the item that was read; raises `FencedOff`, and nothing is written."""
        keys = [self._items, self._fence, self._reservation(payment.key), self._orders]
        _accepted(WRITE.run(self._client, keys, [fence_text(fence), payment.key, item]))

    # For the judge

    def read_all(self) -> tuple[int, list[str], list[Order]]:
        """How many reservations are held, the items on the shelf, and the ledger."""
        entries = self._client.lrange(self._orders, 0, -1)
        left = self._client.lrange(self._items, 0, -1)
        return self._client.zcard(self._held), list(map(str, left)), [Order(**json.loads(entry)) for entry in entries]

    def _reservation(self, key: str) -> str:
        return f"{self._prefix}reservation:{key}"


def _accepted(answer: list[str]) -> str:
    """What a script found; raises `FencedOff`."""
    if answer[0] == "fenced":
        raise FencedOff(f"Redis has seen token {answer[1]}")
    return answer[1]
