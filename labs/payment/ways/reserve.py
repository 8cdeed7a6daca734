"""A reservation that ends, and a payment that does not know: an item is paid for twice."""

from __future__ import annotations

from labs.payment.contract import Outcome, Payment
from labs.payment.ways.base import Way


class Reserve(Way):
    """Reserve an item, pay for it, confirm. Who does not pay in time gives the item back.

    The reservation is a lease, and a late payment is a late write. Nothing refuses it.
    """

    name = "reserve"

    def buy(self, payment: Payment) -> Outcome:
        if refusal := self.shelf.reserve(payment):
            return refusal
        if not self.provider.charge(payment):
            self.shelf.give_back(payment.key)
            return Outcome.DECLINED
        self.shelf.confirm(payment.key, checked=False)  # whatever has become of the reservation
        return Outcome.PAID

    def sweep(self) -> None:
        for key in self.shelf.overdue():
            self.shelf.give_back(key)
