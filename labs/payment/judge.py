"""The verdict on items and money: plain arithmetic over both ledgers, the shop's and the provider's."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from labs.payment.contract import SUCCEEDED, Order

# The sentences of a verdict, by the member that counts.
FINDINGS = {
    "paid_twice": "PAID TWICE {n}",
    "money_without_item": "MONEY WITHOUT ITEM {n}",
    "item_without_money": "ITEM WITHOUT MONEY {n}",
    "items_lost": "ITEMS LOST {n}",
}
EXACT = "EXACT"
TOO_SLOW = "no verdict: this machine is too slow"


@dataclass(frozen=True)
class Verdict:
    """The result of a sale.

    Attributes:
        paid_twice: payments too many for one item, and sold items that are for sale again.
        money_without_item: charges without an order or a refund.
        item_without_money: orders whose money was not taken or was given back, and second orders of one payment.
        items_lost: items that are neither sold nor on the shelf, or stay there although a buyer wanted one.
        gave_up: buyers who never got an answer; items that were not sold because of it are not the shop's fault.
    """

    paid_twice: int = 0
    money_without_item: int = 0
    item_without_money: int = 0
    items_lost: int = 0
    gave_up: int = 0

    @property
    def findings(self) -> dict[str, int]:
        """What is wrong, by keys of `FINDINGS`."""
        counted = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: counted[name] for name in FINDINGS if counted[name]}

    @property
    def is_exact(self) -> bool:
        """Every item was sold once, and the two ledgers agree."""
        return not self.findings

    @property
    def is_too_slow(self) -> bool:
        """Whether nothing is wrong but what buyers who gave up left."""
        return self.gave_up > 0 and set(self.findings) <= {"items_lost"}


def judge(
    *,
    items: int,
    left: Sequence[str],
    orders: Sequence[Order],
    charges: Mapping[str, str],
    turned_away: int = 0,
    gave_up: int = 0,
) -> Verdict:
    """Judge a sale that is over.

    Args:
        items: on the shelf at the beginning.
        left: the items on the shelf at the end.
        orders: the shop's ledger.
        charges: the provider's ledger: the status of each charge, by the payment's key.
        turned_away: buyers who wanted an item and have none; items that are left are lost up to that number.
        gave_up: those of them who never got an answer.
    """
    paid = {key for key, status in charges.items() if status == SUCCEEDED}
    payments = Counter(order.payment for order in orders)
    buyers_of = defaultdict[str, set[str]](set)
    for order in orders:
        buyers_of[order.item].add(order.payment)
    sold, unsold = buyers_of.keys(), Counter(left)
    again = sum(unsold.values()) - len(unsold.keys() - sold)
    return Verdict(
        paid_twice=sum(len(buyers) - 1 for buyers in buyers_of.values()) + again,
        money_without_item=len(paid - payments.keys()),
        item_without_money=len(orders) - len(payments.keys() & paid),
        items_lost=items - len(sold | unsold.keys()) + min(len(unsold.keys() - sold), turned_away),
        gave_up=gave_up,
    )
