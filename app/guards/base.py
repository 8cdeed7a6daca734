"""What all guards have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from redis.client import Pipeline

from app.locking.etcd_sessions import EtcdSessions
from app.sales.inventory import Inventory
from app.sales.purchase import Purchase, Receipt
from app.sales.sale import Sale


class Promise(str, Enum):
    """What a guard promises about a sale; a run in which it does not hold has failed."""

    NONE = "none"
    EXACT_UNTIL_PAUSED = "exact_until_paused"
    EXACT = "exact"


@dataclass(frozen=True)
class Tools:
    """What a guard may use.

    Attributes:
        inventories: for each item.
        lock_timeout: seconds to wait for one's turn.
        lease_ttl: seconds until a lock is freed whose holder died.
    """

    sale: Sale
    inventories: Mapping[str, Inventory]
    sessions: EtcdSessions
    lock_timeout: float
    lease_ttl: int


class Guard(ABC):
    """One way to make the same purchase.

    Attributes:
        name: what buyers ask for; part of the API.
        promise: see `Promise`.
        description: one sentence for people.
    """

    name: ClassVar[str]
    promise: ClassVar[Promise]
    description: ClassVar[str]

    def __init__(self, tools: Tools) -> None:
        self.tools = tools

    def inventory(self, purchase: Purchase) -> Inventory:
        """Where the purchase's item is."""
        return self.tools.inventories[purchase.item]

    @abstractmethod
    def buy(self, purchase: Purchase) -> Receipt:
        """Sell one item; raises one of `app.sales.refusals.EXPECTED` where that is not possible."""


def read_modify_write(inventory: Inventory, purchase: Purchase, pipe: Pipeline | None = None) -> Receipt:
    """The unprotected purchase: anybody may come in between its read and its write.

    Args:
        inventory: where to buy.
        purchase: what to buy; its critical section has begun.
        pipe: a pipeline that watches the stock, if there is one.
    """
    reading = inventory.read(purchase, pipe)
    if reading.receipt is not None:
        return reading.receipt
    purchase.think()
    return inventory.write(purchase, reading, pipe)
