"""The words that provider, shop and judge share."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

PENDING, SUCCEEDED, DECLINED, REFUNDED = "pending", "succeeded", "declined", "refunded"  # what becomes of a charge


class Outcome(str, Enum):
    """What a buyer is told; "reserved" means that others hold the last items, and may give some back."""

    PAID = "paid"
    DECLINED = "declined"
    TOO_LATE = "too_late"
    RESERVED = "reserved"
    SOLD_OUT = "sold_out"


class Payment(NamedTuple):
    """A buyer's payment; its key names reservation, charge and order alike."""

    key: str
    card: str


class Order(NamedTuple):
    """An entry of the shop's ledger: a payment's key, and the item that it bought."""

    payment: str
    item: str
