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

from app.contract.outcomes import Outcome
from app.sales.purchase import Purchase, Receipt, Section, Token
from app.sales.refusals import FencedOff, KeyReused, PurchaseError, SaleReset
from app.sales.sale import Sale
from app.sales.snapshot import SaleSnapshot
from app.sales.stock import Stock
from lock.recipes.cohort import CohortToken
from tests.support.overtaking import overtaken
from tests.support.shop_fixtures import Process
from tests.support.shops import ledger, section_of

Buy = Callable[[Stock, Section], Receipt]


def plain(item_stock: Stock, section: Section) -> Receipt:
    reading = item_stock.read(section)
    return reading.receipt or item_stock.write(section, reading)


def watched(item_stock: Stock, section: Section) -> Receipt:
    """The same through a pipeline that watches, again and again until no other was faster."""
    while True:
        with suppress(redis.WatchError), item_stock.watching() as pipe:
            reading = item_stock.read(section, pipe=pipe)
            return reading.receipt or item_stock.write(section, reading, pipe=pipe)


def fenced(item_stock: Stock, section: Section) -> Receipt:
    """The same under a token."""
    reading = read(item_stock, section)
    return reading.receipt or write(item_stock, section, reading)


def grouped(item_stock: Stock, section: Section) -> Receipt:
    """A group of one under a token."""
    (result,) = item_stock.sell_group([section], fence=section.token)
    if isinstance(result, PurchaseError):
        raise result
    assert result is not None
    return result


BUY: dict[str, Buy] = {"plain": plain, "watched": watched, "fenced": fenced, "group": grouped, "atomic": Stock.sell}
STEPS = ["reset", "deliver", "forget the scripts", *["buy"] * 9]
each_way = pytest.mark.parametrize("buy", BUY.values(), ids=BUY)


def clicked(buyer: str = "ada", *, key: str | None = "k", item: str = "1") -> Section:
    """A purchase inside its critical section, under a token for the ways that need one."""
    return section_of(Purchase(buyer, "g", key=key, item=item), 7)


def holder(token: Token, buyer: str = "ada", key: str | None = None) -> Section:
    """A purchase inside its critical section under `token`."""
    return section_of(Purchase(buyer, "etcd", key=key), token)


def read(item_stock: Stock, section: Section) -> Any:
    return item_stock.read(section, fence=section.token)


def write(item_stock: Stock, section: Section, reading: Any) -> Receipt:
    return item_stock.write(section, reading, fence=section.token)


# The contract of all ways


@each_way
def test_a_purchase_is_written_whole(sale: Sale, item_stock: Stock, buy: Buy) -> None:
    """The ledger names order, item, buyer, instance, guard, token and time; a retry finds the order."""
    buyer = "ä☃\U0001f6d2" + '"}{' + "a\x00b" + "x" * 191
    section = section_of(Purchase(buyer, "g", key="k", instance="shop-a"), 7)
    receipt = buy(item_stock, section)
    assert (receipt.outcome, receipt.stock, receipt.token) == (Outcome.SOLD, 9, 7)
    (entry,) = ledger(sale)
    assert abs(entry.pop("at_ms") / 1000 - time.time()) < 60
    signed = {"order": receipt.order, "item": "1", "instance": "shop-a", "guard": "g", "token": 7}
    assert entry == {**signed, "buyer": buyer}
    assert buy(item_stock, clicked(buyer)).order == receipt.order


@pytest.mark.parametrize(
    "ways", [[way] for way in BUY] + [list(BUY)], ids=lambda ways: ways[0] if len(ways) == 1 else "all"
)
def test_every_way_sells_as_the_model(sale: Sale, item_stock: Stock, ways: list[str]) -> None:
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
            buy, section = BUY[dice.choice(ways)], clicked(buyer, key=key)
            owner, first = answers.get(key or "", (buyer, None))
            if owner != buyer:
                with pytest.raises(KeyReused):
                    buy(item_stock, section)
                continue
            receipt = buy(item_stock, section)
            if first is None:
                outcome = Outcome.SOLD if left else Outcome.SOLD_OUT
                sold, left = sold + (left > 0), max(left - 1, 0)
                first = Receipt(outcome, "g", section.purchase.order if outcome is Outcome.SOLD else None, left)
                answers |= {key: (buyer, first)} if key else {}
                assert not receipt.replayed
            else:
                assert receipt.replayed
            assert (receipt.outcome, receipt.order, receipt.stock) == (first.outcome, first.order, first.stock)
        assert sale.snapshot() == SaleSnapshot(initial=initial, stock=left, lucky=sold, orders=sold)
        assert sale.client.hlen(sale.keys.answers) == len(answers)


@pytest.mark.parametrize("stock", [0, 1])
@each_way
def test_a_key_that_has_bought_is_never_told_sold_out(sale: Sale, item_stock: Stock, buy: Buy, stock: int) -> None:
    """If the same key buys the last item before any command, its order is the answer, then and later."""
    bought: list[Receipt] = []
    section = clicked()

    def deliver_and_buy() -> None:
        if section.receipt is None:
            sale.client.set(sale.keys.stock, 1)
            bought.append(item_stock.sell(clicked()))

    for place in itertools.count():
        sale.reset(stock)
        section = clicked()
        with overtaken(place, deliver_and_buy):
            receipt = buy(item_stock, section)
        if len(bought) == place:
            break
        again = item_stock.sell(clicked())
        assert receipt.order == again.order == bought[place].order
        assert sale.snapshot().orders == 1
    assert bought


@each_way
def test_a_reset_at_any_moment_sells_from_one_sale(sale: Sale, item_stock: Stock, buy: Buy) -> None:
    """If the sale is reset before any command, the purchase is whole in the new sale, or refused."""
    resets: list[Section] = []
    section = clicked()

    def reset() -> None:
        if section.receipt is None:
            sale.reset(5)
            resets.append(section)

    for place in itertools.count():
        sale.reset(1)
        section = clicked()
        with overtaken(place, reset):
            try:
                receipt = buy(item_stock, section)
            except SaleReset:
                assert sale.snapshot() == SaleSnapshot(initial=5, stock=5, lucky=0, orders=0)
                continue
        if len(resets) == place:
            break
        assert (receipt.outcome, receipt.stock, receipt.replayed) == (Outcome.SOLD, 4, False)
    assert resets


@pytest.mark.parametrize("fence", [1, None])
def test_a_key_used_for_two_items_at_once_buys_one(process: Process, fence: int | None) -> None:
    """Different items have different locks: of two purchases with one key that both have read, one can write."""
    sale = process(items=2)
    shelves = [Stock(sale, item=item) for item in ("1", "2")]
    sections = [clicked(item=item) for item in ("1", "2")]
    readings = [shelf.read(section, fence=fence) for shelf, section in zip(shelves, sections, strict=True)]
    shelves[0].write(sections[0], readings[0], fence=fence)
    with pytest.raises(KeyReused):
        shelves[1].write(sections[1], readings[1], fence=fence)
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
        # Beyond the precision of Lua's numbers, and where a digit is added.
        *((low, low + 1) for low in (2**53, 2**63 - 2, 9, 99_999_999_999_999_999)),
    ],
)
@pytest.mark.parametrize("buy", [fenced, grouped])
def test_old_holder_cannot_write_after_the_new_one_wrote(
    sale: Sale, item_stock: Stock, buy: Buy, low: Token, high: Token
) -> None:
    """Old reads, new buys, old writes, buys in a group, reads: each is refused and changes nothing."""
    old = holder(low)
    stale = read(item_stock, old)
    buy(item_stock, holder(high))
    with pytest.raises(FencedOff, match="was here before; if etcd was wiped, reset the sale"):
        write(item_stock, old, stale)
    for late in (fenced, grouped):
        with pytest.raises(FencedOff):
            late(item_stock, holder(low))
    assert (sale.snapshot().stock, sale.snapshot().orders) == (9, 1)


def test_old_holder_cannot_write_between_the_new_ones_read_and_write(sale: Sale, item_stock: Stock) -> None:
    """Old reads, new reads, old writes, new writes: the new *read* has fenced the old one off already."""
    old, new = holder(5), holder(6)
    stale, fresh = read(item_stock, old), read(item_stock, new)
    with pytest.raises(FencedOff, match="token 5 is fenced off, 6 was here"):
        write(item_stock, old, stale)
    assert write(item_stock, new, fresh).stock == 9
    assert (sale.snapshot().stock, sale.snapshot().orders) == (9, 1)


# Groups


def test_a_group_has_an_answer_for_each(sale: Sale, item_stock: Stock) -> None:
    """A retry of an older answer or of one from the group itself, a key of another buyer, the last item, sold out."""
    sale.reset(3)
    first = grouped(item_stock, holder(1, key="k"))
    wanted = [("ada", "k"), ("bob", "b"), ("bob", "b"), ("eve", "k"), ("cleo", None), ("dan", "d")]
    group = [holder(2, buyer, key) for buyer, key in wanted]
    again, bob, twin, thief, cleo, dan = item_stock.sell_group(group, fence=2)
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
    assert grouped(item_stock, holder(2, "dan", "d")).replayed
    assert (sale.snapshot().orders, sale.snapshot().judge().sentence) == (3, "EXACT")
