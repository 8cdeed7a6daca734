"""The verdict on items and money: plain arithmetic over both ledgers, the shop's and the provider's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from labs.payment.contract import SUCCEEDED, Order

# The sentences of a verdict, by finding.
FINDINGS = {
    "exact": "EXACT",  # every item was sold once, and the ledgers agree
    "paid_twice": "PAID TWICE {n}",  # payments too many for one item, and sold items that are for sale again
    "money_without_item": "MONEY WITHOUT ITEM {n}",  # charges without an order or a refund
    "item_without_money": "ITEM WITHOUT MONEY {n}",  # orders not paid for or refunded, second orders of a payment
    "items_lost": "ITEMS LOST {n}",  # neither sold nor on the shelf, or left there although a buyer wanted one
    "too_slow": "no verdict: this machine is too slow",  # nothing is wrong but what buyers who gave up left
}


def judge(
    items: int, left: Sequence[str], orders: Sequence[Order], charges: Mapping[str, str], *, unserved: int, gave_up: int
) -> dict[str, int]:
    """Count the findings of a sale that is over, by keys of `FINDINGS`.

    There were so many `items` at first, and these are `left`; `charges` are the status of each, by the payment's key.
    Items that are left are lost up to the number of `unserved` buyers, who wanted one; `gave_up` is how many of those
    never got an answer.
    """
    paid = {key for key, status in charges.items() if status == SUCCEEDED}
    buyers = {order.payment for order in orders}
    sold, unsold = Counter(item for _, item in set(orders)), Counter(left)
    again = len(left) - len(unsold.keys() - sold)
    counts = {
        "paid_twice": sum(sold.values()) - len(sold) + again,
        "money_without_item": len(paid - buyers),
        "item_without_money": len(orders) - len(buyers & paid),
        "items_lost": items - len(sold.keys() | unsold.keys()) + min(len(unsold.keys() - sold), unserved),
    }
    findings = {name: count for name, count in counts.items() if count}
    if gave_up and findings.keys() == {"items_lost"}:
        return {"too_slow": gave_up}
    return findings or {"exact": 0}
