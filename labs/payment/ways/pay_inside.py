"""A lock around it all: nothing is sold twice, all payments stand in one line, and money can still be lost."""

from __future__ import annotations

from labs.payment.contract import Outcome, Payment
from labs.payment.ways.base import Way

PATIENCE_S = 120.0  # a hundred payments may stand before this one


class PayInside(Way):
    """The etcd mutex, fenced, around read, payment and write.

    The fence stops a late write. It does not bring back the money that was taken before: a process that dies or loses
    the lock between payment and write has taken it for nothing.
    """

    name = "pay-inside"

    def buy(self, payment: Payment) -> Outcome:
        with self.sessions.mutex("payment").acquire(timeout=PATIENCE_S) as hold:
            item = self.shelf.read(payment, fence=hold.token)
            if item is None:
                return Outcome.SOLD_OUT
            if not self.provider.charge(payment):
                return Outcome.DECLINED
            hold.ensure()
            self.shelf.write(payment, item, fence=hold.token)
            return Outcome.PAID
