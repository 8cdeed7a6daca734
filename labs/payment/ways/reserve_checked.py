"""A reservation that ends, and a confirmation that looks: what comes too late is refunded."""

from __future__ import annotations

from labs.payment.contract import DECLINED, REFUNDED, SUCCEEDED, Outcome, Payment
from labs.payment.ways.base import Way


class ReserveChecked(Way):
    """As `reserve`, but every payment ends as an order or as a refund, whoever dies at whatever moment.

    The script that writes the order refuses it if the reservation has ended. Before an item is given back, the provider
    is asked for its charge, and asked again until that has an end. Every step has a key, so it can be repeated.
    """

    name = "reserve-checked"

    def buy(self, payment: Payment) -> Outcome:
        if refusal := self.shelf.reserve(payment):
            return refusal
        if not self.provider.charge(payment):
            self.shelf.give_back(payment.key)
            return Outcome.DECLINED
        return self._conclude(payment.key)

    def sweep(self) -> None:
        for key in [*self.shelf.overdue(), *self.shelf.unsettled()]:
            status = self.provider.find(key)
            if status == SUCCEEDED:
                self._conclude(key)
            else:
                self.shelf.give_back(key)  # what is charged from now on comes too late
            if status in (DECLINED, REFUNDED):
                self.shelf.settle(key)

    def _conclude(self, key: str) -> Outcome:
        """An order for the money, or the money back."""
        if self.shelf.confirm(key, checked=True):
            return Outcome.PAID
        self.provider.refund(key)
        self.shelf.settle(key)
        return Outcome.TOO_LATE
