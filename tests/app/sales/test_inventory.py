"""Purchases at the level of Redis: one contract for all ways to write, and fencing in every interleaving."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import redis
from app.sales.inventory import Inventory
from app.sales.tokens import Token
from tests.app.sales.conftest import Process

from app.sales.purchase import Outcome, Purchase, Receipt
from app.sales.refusals import FencedOff, KeyReused, SaleReset
from app.sales.sale import Sale
from app.sales.snapshot import Snapshot
from lock import CohortToken
from tests.support.overtaking import overtaken
from tests.support.shops import ledger

Buy = Callable[[Inventory, Purchase], Receipt]


def plain(inventory: Inventory, purchase: Purchase) -> Receipt:
    reading = inventory.read(purchase)
    return reading.receipt or inventory.write(purchase, reading)


def watched(inventory: Inventory, purchase: Purchase) -> Receipt:
    """The same through a pipeline that watches, again and again until no other was faster."""
    while True:
        with suppress(redis.WatchError), inventory.watching() as pipe:
            reading = inventory.read(purchase, pipe=pipe)
            return reading.receipt or inventory.write(purchase, reading, pipe=pipe)


def fenced(inventory: Inventory, purchase: Purchase) -> Receipt:
    """The same under a token."""
    purchase.token = purchase.token or 7
    reading = read(inventory, purchase)
    return reading.receipt or write(inventory, purchase, reading)


def grouped(inventory: Inventory, purchase: Purchase) -> Receipt:
    """A group of one under a token."""
    purchase.token = purchase.token or 7
    (result,) = inventory.sell_group([purchase], fence=purchase.token)
    if isinstance(result, KeyReused):
        raise result
    assert result is not None
    return result


BUY: dict[str, Buy] = {"plain": plain, "watched": watched, "fenced": fenced, "group": grouped, "atomic": Inventory.sell}
STEPS = ["reset", "deliver", "forget the scripts", *["buy"] * 9]
each_way = pytest.mark.parametrize("buy", BUY.values(), ids=BUY)
each_way_under_a_token = pytest.mark.parametrize("buy", [fenced, grouped])


def holder(token: Token, buyer: str = "ada", key: str | None = None) -> Purchase:
    """A purchase inside its critical section under `token`."""
    return Purchase(buyer, "etcd", key=key, token=token)


def read(inventory: Inventory, purchase: Purchase) -> Any:
    return inventory.read(purchase, fence=purchase.token)


def write(inventory: Inventory, purchase: Purchase, reading: Any) -> Receipt:
    return inventory.write(purchase, reading, fence=purchase.token)


# The contract of all ways


@each_way
def test_a_purchase_is_written_whole(sale: Sale, inventory: Inventory, buy: Buy) -> None:
    """The ledger names order, item, buyer, instance, guard, token and time; a retry finds the order."""
    buyer = "ä☃\U0001f6d2" + '"}{' + "a\x00b" + "x" * 191
    purchase = Purchase(buyer, "g", key="k", instance="shop-a")
    receipt = buy(inventory, purchase)
    assert (receipt.outcome, receipt.stock, receipt.token) == (Outcome.SOLD, 9, purchase.token)
    (entry,) = ledger(sale)
    assert abs(entry.pop("at_ms") / 1000 - time.time()) < 60
    signed = {"order": receipt.order, "item": "1", "instance": "shop-a", "guard": "g", "token": purchase.token}
    assert entry == {**signed, "buyer": buyer}
    assert buy(inventory, Purchase(buyer, "g", key="k")).order == receipt.order


@pytest.mark.parametrize(
    "ways", [[way] for way in BUY] + [list(BUY)], ids=lambda ways: ways[0] if len(ways) == 1 else "all"
)
def test_every_way_sells_as_the_model(sale: Sale, inventory: Inventory, ways: list[str]) -> None:
    """Over resets, deliveries and restarts: a key gets its first answer again, and every other purchase the stock."""
    dice, answers = random.Random(7), dict[str, tuple[str, Receipt]]()
    initial = left = sold = 0
    sale.reset(0)
    for step in dice.choices(STEPS, k=150):
        if step == "reset":
            initial = left = dice.randrange(4)
            sold, answers = 0, {}
            sale.reset(initial)
        elif step == "deliver":
            left += 2
            sale.client.incrby(sale.keys.stock, 2)
        elif step == "forget the scripts":
            sale.client.script_flush()
        else:
            buyer, key = dice.choice("ab"), dice.choice(["k", "l", None, None])
            buy, purchase = BUY[dice.choice(ways)], Purchase(buyer, "g", key=key)
            owner, first = answers.get(key or "", (buyer, None))
            if owner != buyer:
                with pytest.raises(KeyReused):
                    buy(inventory, purchase)
                continue
            receipt = buy(inventory, purchase)
            if first is None:
                outcome = Outcome.SOLD if left else Outcome.SOLD_OUT
                sold, left = sold + (left > 0), max(left - 1, 0)
                first = Receipt(outcome, "g", purchase.order if outcome is Outcome.SOLD else None, left)
                answers |= {key: (buyer, first)} if key else {}
                assert not receipt.replayed
            else:
                assert receipt.replayed
            assert (receipt.outcome, receipt.order, receipt.stock) == (first.outcome, first.order, first.stock)
        assert sale.snapshot() == Snapshot(initial=initial, stock=left, lucky=sold, orders=sold)
        assert sale.client.hlen(sale.keys.answers) == len(answers)


@pytest.mark.parametrize("stock", [0, 1])
@each_way
def test_a_key_that_has_bought_is_never_told_sold_out(sale: Sale, inventory: Inventory, buy: Buy, stock: int) -> None:
    """If the same key buys the last item before any command, its order is the answer, then and later."""
    bought: list[Receipt] = []
    purchase = Purchase("ada", "g", key="k")

    def deliver_and_buy() -> None:
        if purchase.decided is None:
            sale.client.set(sale.keys.stock, 1)
            bought.append(inventory.sell(Purchase("ada", "g", key="k")))

    for place in itertools.count():
        sale.reset(stock)
        purchase = Purchase("ada", "g", key="k")
        with overtaken(place, deliver_and_buy):
            receipt = buy(inventory, purchase)
        if len(bought) == place:
            break
        again = inventory.sell(Purchase("ada", "g", key="k"))
        assert receipt.order == again.order == bought[place].order
        assert sale.snapshot().orders == 1
    assert bought


@each_way
def test_a_reset_at_any_moment_sells_from_one_sale(sale: Sale, inventory: Inventory, buy: Buy) -> None:
    """If the sale is reset before any command, the purchase is whole in the new sale, or refused."""
    resets: list[Purchase] = []
    purchase = Purchase("ada", "g", key="k")

    def reset() -> None:
        if purchase.decided is None:
            sale.reset(5)
            resets.append(purchase)

    for place in itertools.count():
        sale.reset(1)
        purchase = Purchase("ada", "g", key="k")
        with overtaken(place, reset):
            try:
                receipt = buy(inventory, purchase)
            except SaleReset:
                assert sale.snapshot() == Snapshot(initial=5, stock=5, lucky=0, orders=0)
                continue
        if len(resets) == place:
            break
        assert (receipt.outcome, receipt.stock, receipt.replayed) == (Outcome.SOLD, 4, False)
    assert resets


@pytest.mark.parametrize("fence", [1, None])
def test_a_key_used_for_two_items_at_once_buys_one(process: Process, fence: int | None) -> None:
    """Different items have different locks: of two purchases with one key that both have read, one can write."""
    sale = process(items=2)
    shelves = [Inventory(sale, item=item) for item in ("1", "2")]
    purchases = [Purchase("ada", "etcd", item=item, key="k") for item in ("1", "2")]
    readings = [shelf.read(purchase, fence=fence) for shelf, purchase in zip(shelves, purchases, strict=True)]
    shelves[0].write(purchases[0], readings[0], fence=fence)
    with pytest.raises(KeyReused):
        shelves[1].write(purchases[1], readings[1], fence=fence)
    assert (sale.snapshot("1").stock, sale.snapshot("2").stock) == (9, 10)


# Fencing


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (5, 6),
        (CohortToken(5, 1), CohortToken(5, 2)),
        (CohortToken(5, 9), CohortToken(5, 10)),
        (CohortToken(5, 999), 6),
        (5, CohortToken(6, 1)),
        (CohortToken(5, 999_999_999), CohortToken(5, 1_000_000_000)),
        (CohortToken(10**18 - 1, 1), 10**18),
        (CohortToken(2**53, 1), CohortToken(2**53 + 1, 1)),
    ],
)
@each_way_under_a_token
def test_old_holder_cannot_write_after_the_new_one_wrote(
    sale: Sale, inventory: Inventory, buy: Buy, low: Token, high: Token
) -> None:
    """Old reads, new buys, old writes, buys in a group, reads: each is refused and changes nothing."""
    old = holder(low)
    stale = read(inventory, old)
    buy(inventory, holder(high))
    with pytest.raises(FencedOff, match="was here before; if etcd was wiped, reset the sale"):
        write(inventory, old, stale)
    for late in BUY.values():
        if late in (fenced, grouped):
            with pytest.raises(FencedOff):
                late(inventory, holder(low))
    assert (sale.snapshot().stock, sale.snapshot().orders) == (9, 1)


def test_old_holder_cannot_write_between_the_new_ones_read_and_write(sale: Sale, inventory: Inventory) -> None:
    """Old reads, new reads, old writes, new writes: the new *read* has fenced the old one off already."""
    old, new = holder(5), holder(6)
    stale, fresh = read(inventory, old), read(inventory, new)
    with pytest.raises(FencedOff, match="token 5 is fenced off, 6 was here"):
        write(inventory, old, stale)
    assert write(inventory, new, fresh).stock == 9
    assert (sale.snapshot().stock, sale.snapshot().orders) == (9, 1)


@pytest.mark.parametrize("low", [2**53, 2**63 - 2, 9, 99_999_999_999_999_999])
def test_tokens_are_compared_exactly(inventory: Inventory, low: int) -> None:
    """Two tokens that differ by one are distinct beyond the precision of Lua's numbers, and where a digit is added."""
    read(inventory, holder(low + 1))
    with pytest.raises(FencedOff):
        read(inventory, holder(low))


# Groups


def test_a_group_has_an_answer_for_each(sale: Sale, inventory: Inventory) -> None:
    """A retry of an older answer or of one from the group itself, a key of another buyer, the last item, sold out."""
    sale.reset(3)
    first = grouped(inventory, holder(1, key="k"))
    wanted = [("ada", "k"), ("bob", "b"), ("bob", "b"), ("eve", "k"), ("cleo", None), ("dan", "d")]
    group = [holder(2, buyer, key) for buyer, key in wanted]
    again, bob, twin, thief, cleo, dan = inventory.sell_group(group, fence=2)
    assert isinstance(thief, KeyReused)
    receipts = [each for each in (again, bob, twin, cleo, dan) if isinstance(each, Receipt)]
    assert [(each.outcome.value, each.stock, each.replayed) for each in receipts] == [
        ("sold", 2, True),
        ("sold", 1, False),
        ("sold", 1, True),
        ("sold", 0, False),
        ("sold_out", 0, False),
    ]
    assert (receipts[0].order, receipts[0].token, receipts[2].order) == (first.order, 1, receipts[1].order)
    assert grouped(inventory, holder(2, "dan", "d")).replayed
    assert (sale.snapshot().orders, sale.snapshot().verdict) == (3, "EXACT")
