"""The words that provider, shop and judge share."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

# The status of a charge.
PENDING, SUCCEEDED, DECLINED, REFUNDED = "pending", "succeeded", "declined", "refunded"


class Outcome(str, Enum):
    """What a buyer is told."""

    PAID = "paid"
    DECLINED = "declined"
    TOO_LATE = "too_late"
    RESERVED = "reserved"
    SOLD_OUT = "sold_out"


class Payment(NamedTuple):
    """A buyer's payment.

    Attributes:
        key: names the buyer's request in the shop, and the charge at the provider.
        card: the buyer's.
    """

    key: str
    card: str


class Order(NamedTuple):
    """An entry of the shop's ledger: the item that a payment bought."""

    payment: str
    item: str
