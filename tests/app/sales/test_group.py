"""Purchases committed together, at the level of Redis: one token, one step, and an answer of his own for each buyer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.sales.inventory import Inventory
from app.sales.purchase import Outcome, Purchase, Receipt
from app.sales.refusals import FencedOff, KeyReused
from app.sales.sale import Sale
from lock import CohortToken


@pytest.fixture
def inventory(sale: Sale) -> Inventory:
    """The sale's inventory, as instance shop-a sells from it."""
    return Inventory(sale, instance="shop-a")


def group(token: int | CohortToken, *buyers: str, keys: tuple[str | None, ...] = ()) -> list[Purchase]:
    """Purchases inside one critical section; `keys` are the idempotency keys of the first of them."""
    purchases = [Purchase(buyer, "etcd-batch") for buyer in buyers]
    for purchase in purchases:
        purchase.token = token
    for purchase, key in zip(purchases, keys, strict=False):
        purchase.key = key
    return purchases


def alone(token: int | CohortToken) -> Purchase:
    """A purchase with a critical section of its own."""
    return group(token, "ada")[0]


def receipts(inventory: Inventory, purchases: list[Purchase]) -> list[Receipt]:
    """The outcome of a group in which nobody's key is refused."""
    results = inventory.fenced_group(purchases)
    assert all(isinstance(result, Receipt) for result in results)
    return [result for result in results if isinstance(result, Receipt)]


def ledger(sale: Sale) -> list[dict[str, Any]]:
    """The entries of the ledger."""
    return [json.loads(entry) for entry in sale.client.lrange(sale.keys.orders, 0, -1)]


def test_a_group_is_sold_in_order(sale: Sale, inventory: Inventory) -> None:
    """Each buyer gets an order of his own, the ledger has them in the order of the line, and all bear the token."""
    purchases = group(CohortToken(7, 2), "ada", "bob", "cleo")
    results = receipts(inventory, purchases)
    assert [(result.outcome, result.stock) for result in results] == [(Outcome.SOLD, left) for left in (9, 8, 7)]
    assert [result.order for result in results] == [purchase.order for purchase in purchases]
    assert [(entry["buyer"], entry["order"], entry["token"]) for entry in ledger(sale)] == [
        (purchase.buyer, purchase.order, [7, 2]) for purchase in purchases
    ]
    now = sale.snapshot()
    assert (now.stock, now.lucky, now.orders, now.verdict) == (7, 3, 3, "EXACT")


def test_who_comes_after_the_last_item_is_told_by_the_same_commit(sale: Sale, inventory: Inventory) -> None:
    """Of a group larger than the stock, the first in line buy and the others are told that it is sold out."""
    sale.reset(2)
    results = receipts(inventory, group(1, "ada", "bob", "cleo", "dan", keys=(None, None, "k")))
    assert [(result.outcome.value, result.stock) for result in results] == [
        ("sold", 1),
        ("sold", 0),
        ("sold_out", 0),
        ("sold_out", 0),
    ]
    assert [result.order is None for result in results] == [False, False, True, True]
    assert sale.snapshot().verdict == "EXACT"
    (again,) = receipts(inventory, group(1, "cleo", keys=("k",)))
    assert (again.outcome, again.replayed) == (Outcome.SOLD_OUT, True)


def test_a_key_that_has_its_answer_gets_it_again(sale: Sale, inventory: Inventory) -> None:
    """A retry inside a group takes no item, whether the first answer is older or from the group itself."""
    (first,) = receipts(inventory, group(1, "ada", keys=("k",)))
    again, other, twin = receipts(inventory, group(2, "ada", "bob", "bob", keys=("k", "b", "b")))
    assert (again.order, again.stock, again.token, again.replayed) == (first.order, 9, 1, True)
    assert (twin.order, twin.stock, twin.replayed, other.replayed) == (other.order, 8, True, False)
    assert sale.snapshot().orders == 2


def test_a_strangers_key_is_refused_to_its_sender_alone(sale: Sale, inventory: Inventory) -> None:
    """Who sends another buyer's key is refused; the rest of the group is served."""
    receipts(inventory, group(1, "ada", keys=("k",)))
    thief, honest = inventory.fenced_group(group(2, "eve", "bob", keys=("k",)))
    assert isinstance(thief, KeyReused)
    assert isinstance(honest, Receipt)
    assert sale.snapshot().orders == 2


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (5, 6),
        (CohortToken(5, 9), CohortToken(5, 10)),
        (CohortToken(5, 999), 6),
        (5, CohortToken(6, 1)),
        (CohortToken(2**53, 1), CohortToken(2**53 + 1, 1)),
    ],
)
def test_a_late_group_writes_nothing(sale: Sale, inventory: Inventory, low: Any, high: Any) -> None:
    """After a higher token, of whichever guard, the whole group of a lower one is refused."""
    inventory.fenced_read(alone(high))
    with pytest.raises(FencedOff, match="was here before"):
        inventory.fenced_group(group(low, "ada", "bob"))
    assert (sale.snapshot().stock, sale.snapshot().orders) == (10, 0)


def test_a_group_shuts_out_an_older_holder_between_its_read_and_write(sale: Sale, inventory: Inventory) -> None:
    """Another guard's old holder that has read before the group cannot write after it."""
    old = alone(5)
    stale = inventory.fenced_read(old)
    inventory.fenced_group(group(CohortToken(6, 1), "bob", "cleo"))
    with pytest.raises(FencedOff, match=r"token 5 is fenced off, 6\.1 was here"):
        inventory.fenced_write(old, stale)
    assert (sale.snapshot().stock, sale.snapshot().orders) == (8, 2)


def test_an_older_turn_cannot_write_after_a_newer_one(sale: Sale, inventory: Inventory) -> None:
    """Turns of one hold fence each other as holds do: a thread that was handed past writes nothing."""
    old, new = alone(CohortToken(5, 1)), alone(CohortToken(5, 2))
    stale = inventory.fenced_read(old)
    inventory.fenced_write(new, inventory.fenced_read(new))
    with pytest.raises(FencedOff):
        inventory.fenced_write(old, stale)
    assert (sale.snapshot().stock, sale.snapshot().orders) == (9, 1)


def test_a_group_opens_the_sale(sale: Sale, inventory: Inventory) -> None:
    """A Redis without the sale, or without its stock, gets it at the first group, as the settings say."""
    for lost in (vars(sale.keys).values(), [sale.keys.stock]):
        sale.client.delete(*lost)
        assert [receipt.stock for receipt in receipts(inventory, group(1, "ada", "bob"))] == [9, 8]
    assert not sale.client.exists(sale.keys.answers), "nobody has brought a key"


def test_a_group_opens_half_a_sale(sale: Sale, inventory: Inventory) -> None:
    """A stock without a generation, as a late plain write leaves it in a Redis that lost its data, is no sale."""
    sale.client.delete(sale.keys.generation)
    sale.client.set(sale.keys.stock, 5)
    assert [receipt.stock for receipt in receipts(inventory, group(1, "ada", "bob"))] == [9, 8]


@pytest.mark.parametrize("buyer", ["ä☃\U0001f6d2", '"}{', "a\x00b", "x" * 200])
def test_any_buyer_is_stored_as_is(sale: Sale, inventory: Inventory, buyer: str) -> None:
    """Whatever text a buyer's name is, the ledger and the stored answer know it by exactly that."""
    receipts(inventory, group(1, buyer, keys=("k",)))
    (again,) = receipts(inventory, group(2, buyer, keys=("k",)))
    assert (ledger(sale)[0]["buyer"], again.replayed) == (buyer, True)
