"""The judge shows each thing that can be wrong, and nothing else."""

from __future__ import annotations

import pytest

from labs.payment.contract import DECLINED, PENDING, REFUNDED, SUCCEEDED, Order
from labs.payment.judge import judge

ADA, BOB = Order("ada", "1"), Order("bob", "2")
PAID = {"ada": SUCCEEDED, "bob": SUCCEEDED}


@pytest.mark.parametrize(
    ("left", "orders", "charges", "found"),
    [
        ([], [ADA, BOB], PAID, {"exact": 0}),
        ([], [ADA, BOB], PAID | {"eve": DECLINED, "cleo": REFUNDED, "dan": PENDING}, {"exact": 0}),
        ([], [ADA, BOB, Order("eve", "1")], PAID | {"eve": SUCCEEDED}, {"paid_twice": 1}),
        (["1"], [ADA, BOB], PAID, {"paid_twice": 1}),
        ([], [ADA, BOB], PAID | {"eve": SUCCEEDED}, {"money_without_item": 1}),
        ([], [ADA, BOB], {"ada": SUCCEEDED, "bob": REFUNDED}, {"item_without_money": 1}),
        ([], [ADA, BOB], {"ada": SUCCEEDED}, {"item_without_money": 1}),
        ([], [ADA, Order("ada", "2")], {"ada": SUCCEEDED}, {"item_without_money": 1}),
        ([], [ADA, ADA, BOB], PAID, {"item_without_money": 1}),
        ([], [ADA], {"ada": SUCCEEDED}, {"items_lost": 1}),
        (["2"], [ADA], {"ada": SUCCEEDED}, {"items_lost": 1}),
    ],
)
def test_each_flaw_is_counted_alone(
    left: list[str], orders: list[Order], charges: dict[str, str], found: dict[str, int]
) -> None:
    """Two items: one payment for each is exact; what is given back or declined is no money."""
    assert judge(2, left, orders, charges, unserved=1, gave_up=0) == found


def test_an_item_that_nobody_wants_is_not_lost() -> None:
    """It may stay on the shelf if every buyer has one."""
    assert judge(2, ["2"], [ADA], {"ada": SUCCEEDED}, unserved=0, gave_up=0) == {"exact": 0}


def test_a_slow_machine_gives_no_verdict_but_hides_no_flaw() -> None:
    """Items that buyers who gave up have left are not the shop's fault; money without an item is."""
    assert judge(2, ["2"], [ADA], {"ada": SUCCEEDED}, unserved=1, gave_up=1) == {"too_slow": 1}
    assert judge(2, ["2"], [ADA], PAID, unserved=1, gave_up=1) == {"money_without_item": 1, "items_lost": 1}
