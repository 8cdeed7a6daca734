"""Purchases at the level of Redis: fencing in every interleaving, resets, big tokens, idempotent answers."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import redis

from app.sales.inventory import Inventory
from app.sales.purchase import Outcome, Purchase, Receipt
from app.sales.refusals import FencedOff, KeyReused, SaleReset
from app.sales.sale import Sale, Snapshot
from tests.support.overtaking import overtaken


@pytest.fixture
def inventory(sale: Sale) -> Inventory:
    """The sale's inventory, as instance shop-a sells from it."""
    return Inventory(sale, instance="shop-a")


def holder(token: int, **options: Any) -> Purchase:
    """A purchase inside its critical section under `token`."""
    purchase = Purchase(buyer=options.pop("buyer", "ada"), guard="etcd", **options)
    purchase.token = token
    return purchase


def ledger(sale: Sale) -> list[dict[str, Any]]:
    """The entries of the ledger."""
    return [json.loads(entry) for entry in sale.client.lrange(sale.keys.orders, 0, -1)]


def test_a_fenced_purchase_is_written_whole(sale: Sale, inventory: Inventory) -> None:
    """One fenced purchase takes one item, counts it, and signs the ledger with buyer, instance, guard and token."""
    purchase = holder(7, buyer="Ada ☃ \U0001f6d2")
    receipt = inventory.fenced_write(purchase, inventory.fenced_read(purchase))
    assert (receipt.outcome, receipt.stock, receipt.token) == (Outcome.SOLD, 9, 7)
    (entry,) = ledger(sale)
    assert abs(entry.pop("at_ms") / 1000 - time.time()) < 60
    assert entry == {
        "order": receipt.order,
        "item": "1",
        "buyer": "Ada ☃ \U0001f6d2",
        "instance": "shop-a",
        "guard": "etcd",
        "token": 7,
    }
    now = sale.snapshot()
    assert (now.initial, now.stock, now.lucky, now.orders) == (10, 9, 1, 1)


def test_old_holder_cannot_write_after_the_new_one_wrote(sale: Sale, inventory: Inventory) -> None:
    """Old reads, new reads and writes, old writes: the old write is refused and changes nothing."""
    old, new = holder(5), holder(6)
    stale = inventory.fenced_read(old)
    inventory.fenced_write(new, inventory.fenced_read(new))
    with pytest.raises(FencedOff, match="token 5 is fenced off, 6"):
        inventory.fenced_write(old, stale)
    assert (sale.snapshot().stock, sale.snapshot().orders) == (9, 1)


def test_old_holder_cannot_write_between_the_new_ones_read_and_write(sale: Sale, inventory: Inventory) -> None:
    """Old reads, new reads, old writes, new writes: the new *read* has fenced the old one off already."""
    old, new = holder(5), holder(6)
    stale = inventory.fenced_read(old)
    fresh = inventory.fenced_read(new)
    with pytest.raises(FencedOff):
        inventory.fenced_write(old, stale)
    assert inventory.fenced_write(new, fresh).stock == 9
    assert (sale.snapshot().stock, sale.snapshot().orders) == (9, 1)


def test_old_holder_cannot_even_read(sale: Sale, inventory: Inventory) -> None:
    """A holder that comes back after a newer one has read learns it at its read."""
    inventory.fenced_read(holder(6))
    with pytest.raises(FencedOff):
        inventory.fenced_read(holder(5))


@pytest.mark.parametrize("low", [2**53, 2**63 - 2, 9, 99_999_999_999_999_999])
def test_tokens_are_compared_exactly(inventory: Inventory, low: int) -> None:
    """Two tokens that are one apart are told apart even where Lua's numbers could not, and where digits are added."""
    inventory.fenced_read(holder(low + 1))
    with pytest.raises(FencedOff):
        inventory.fenced_read(holder(low))


def test_the_same_token_may_go_on(inventory: Inventory) -> None:
    """One hold may make several purchases."""
    for left in (9, 8):
        again = holder(5)
        assert inventory.fenced_write(again, inventory.fenced_read(again)).stock == left
    (receipt,) = inventory.fenced_group([holder(5)])
    assert receipt.stock == 7


def test_a_holder_paused_across_a_reset_writes_nothing(sale: Sale, inventory: Inventory) -> None:
    """A reset between read and write refuses the write, although the fence is back at zero."""
    purchase = holder(5)
    stale = inventory.fenced_read(purchase)
    sale.reset(3)
    with pytest.raises(SaleReset):
        inventory.fenced_write(purchase, stale)
    assert (sale.snapshot().stock, sale.snapshot().orders) == (3, 0)


def test_a_holder_paused_while_redis_loses_its_data_writes_nothing(sale: Sale, inventory: Inventory) -> None:
    """A sale that was opened anew after Redis lost everything has another generation than the one before."""
    purchase = holder(5)
    stale = inventory.fenced_read(purchase)
    sale.client.delete(*vars(sale.keys).values())
    sale.open_if_closed()
    with pytest.raises(SaleReset):
        inventory.fenced_write(purchase, stale)


def test_a_reset_heals_a_wiped_etcd(sale: Sale, inventory: Inventory) -> None:
    """An etcd that counts from one again is fenced off until the sale is reset, and sells afterwards."""
    inventory.fenced_read(holder(1000))
    with pytest.raises(FencedOff, match="reset the sale"):
        inventory.fenced_read(holder(1))
    sale.reset()
    again = holder(1)
    assert inventory.fenced_write(again, inventory.fenced_read(again)).outcome is Outcome.SOLD


def test_the_plain_write_believes_what_it_read(sale: Sale, inventory: Inventory) -> None:
    """Two plain purchases that read the same stock both sell, and one update is lost: the race is real."""
    first, second = Purchase("ada", "none"), Purchase("bob", "none")
    readings = inventory.read(first), inventory.read(second)
    inventory.write(first, readings[0])
    inventory.write(second, readings[1])
    now = sale.snapshot()
    assert (now.stock, now.orders, now.lost_updates, now.verdict) == (9, 2, 1, "1 lost update")


def test_a_plain_write_leaves_the_first_answer_to_a_key(inventory: Inventory) -> None:
    """Of two plain purchases that race with one key both may sell; whoever asks again is told of the first."""
    first, second = Purchase("ada", "none", key="k"), Purchase("ada", "none", key="k")
    readings = inventory.read(first), inventory.read(second)
    inventory.write(first, readings[0])
    assert inventory.write(second, readings[1]).order == second.order
    assert plain(inventory, Purchase("ada", "none", key="k")).order == first.order


def test_a_watched_write_notices_others(sale: Sale, inventory: Inventory) -> None:
    """A purchase that watches fails with WatchError when anybody has bought since, and writes nothing."""
    purchase = Purchase("ada", "redis-watch")
    with inventory.watching() as pipe:
        reading = inventory.read(purchase, pipe)
        inventory.sell(Purchase("bob", "redis-lua"))
        with pytest.raises(redis.WatchError):
            inventory.write(purchase, reading, pipe)
    assert sale.snapshot().orders == 1


def test_a_first_request_opens_the_sale(sale: Sale, inventory: Inventory) -> None:
    """A Redis without the sale, or without its stock, gets it at the first purchase, as the settings say."""
    for buy in (BUY["plain"], BUY["fenced"], BUY["atomic"]):
        for lost in (vars(sale.keys).values(), [sale.keys.stock]):
            sale.client.delete(*lost)
            assert buy(inventory, Purchase("ada", "none")).stock == 9


def half_a_sale(sale: Sale, inventory: Inventory) -> None:
    """What a plain purchase leaves that was thinking while Redis lost its data: stock, lucky and orders alone."""
    purchase = Purchase("ada", "none")
    reading = inventory.read(purchase)
    sale.client.delete(*vars(sale.keys).values())
    inventory.write(purchase, reading)


def test_half_a_sale_is_none_to_whoever_looks(sale: Sale, inventory: Inventory) -> None:
    """What a plain write leaves of a sale that Redis has lost is opened anew at the next look."""
    half_a_sale(sale, inventory)
    assert sale.snapshot() == Snapshot(initial=10, stock=10, lucky=0, orders=0)


def test_half_a_sale_is_not_sold_out(sale: Sale, inventory: Inventory) -> None:
    """An empty stock that a plain write leaves of a sale that Redis has lost tells nobody that nothing is left."""
    sale.reset(0)
    assert fenced(inventory, Purchase("ada", "etcd")).outcome is Outcome.SOLD_OUT
    sale.reset(1)
    half_a_sale(sale, inventory)
    assert inventory.sold_out_check.take(Purchase("bob", "etcd")) is None
    assert fenced(inventory, Purchase("bob", "etcd")).stock == 9


def plain(inventory: Inventory, purchase: Purchase) -> Any:
    """The plain purchase, unprotected."""
    reading = inventory.read(purchase)
    return reading.receipt or inventory.write(purchase, reading)


def watched(inventory: Inventory, purchase: Purchase) -> Any:
    """The plain purchase through a pipeline that watches."""
    with inventory.watching() as pipe:
        reading = inventory.read(purchase, pipe)
        return reading.receipt or inventory.write(purchase, reading, pipe)


def fenced(inventory: Inventory, purchase: Purchase) -> Any:
    """The fenced purchase."""
    purchase.token = 1
    reading = inventory.fenced_read(purchase)
    return reading.receipt or inventory.fenced_write(purchase, reading)


Buy = Callable[[Inventory, Purchase], Any]
BUY: dict[str, Buy] = {"plain": plain, "watched": watched, "fenced": fenced, "atomic": Inventory.sell}
each_way = pytest.mark.parametrize("buy", BUY.values(), ids=BUY)


@each_way
def test_a_retry_gets_the_first_order(sale: Sale, inventory: Inventory, buy: Buy) -> None:
    """The same key buys once: later it gets the same order and stock, marked as given again, and whatever is left."""
    sale.reset(3)
    first = buy(inventory, Purchase("ada", "g", key="k"))
    for left in (2, 1, 0):
        again = buy(inventory, Purchase("ada", "g", key="k"))
        assert (again.outcome, again.order, again.stock) == (Outcome.SOLD, first.order, 2)
        assert (first.replayed, again.replayed) == (False, True)
        assert sale.snapshot().stock == left
        buy(inventory, Purchase("bob", "g"))


@each_way
def test_sold_out_is_remembered_too(sale: Sale, inventory: Inventory, buy: Buy) -> None:
    """A buyer who was told "sold out" is told so again, without an order, even if items have come back."""
    sale.reset(0)
    first = buy(inventory, Purchase("ada", "g", key="k"))
    assert (first.outcome, first.order, first.stock, first.replayed) == (Outcome.SOLD_OUT, None, 0, False)
    sale.client.set(sale.keys.stock, 5)
    again = buy(inventory, Purchase("ada", "g", key="k"))
    assert (again.outcome, again.order, again.stock, again.replayed) == (Outcome.SOLD_OUT, None, 0, True)
    assert buy(inventory, Purchase("ada", "g")).outcome is Outcome.SOLD


@each_way
def test_a_key_belongs_to_one_buyer(sale: Sale, inventory: Inventory, buy: Buy) -> None:
    """Another buyer with the same key gets neither the order nor an item."""
    buy(inventory, Purchase("ada", "g", key="k"))
    with pytest.raises(KeyReused):
        buy(inventory, Purchase("bob", "g", key="k"))
    assert sale.snapshot().orders == 1


@each_way
def test_a_reset_forgets_the_keys(sale: Sale, inventory: Inventory, buy: Buy) -> None:
    """A new sale knows nothing of the answers of the one before."""
    first = buy(inventory, Purchase("ada", "g", key="k"))
    sale.reset()
    again = buy(inventory, Purchase("ada", "g", key="k"))
    assert again.order != first.order
    assert not again.replayed


@each_way
def test_nothing_is_sold_below_zero(sale: Sale, inventory: Inventory, buy: Buy) -> None:
    """One after the other, exactly the initial stock is sold; for who brings no key, no answer is kept."""
    outcomes = [buy(inventory, Purchase(str(number), "g")).outcome for number in range(12)]
    assert outcomes == [Outcome.SOLD] * 10 + [Outcome.SOLD_OUT] * 2
    assert sale.snapshot() == Snapshot(initial=10, stock=0, lucky=10, orders=10)
    assert not sale.client.exists(sale.keys.answers)


@pytest.mark.parametrize("buy", [fenced, Inventory.sell])
def test_half_a_sale_is_none_to_whoever_buys(sale: Sale, inventory: Inventory, buy: Buy) -> None:
    """What a plain write leaves of a sale that Redis has lost is opened anew by the next fenced or atomic purchase."""
    half_a_sale(sale, inventory)
    assert buy(inventory, Purchase("bob", "g")).stock == 9
    assert sale.snapshot() == Snapshot(initial=10, stock=9, lucky=1, orders=1)


def persistent(inventory: Inventory, purchase: Purchase) -> Any:
    """The watched purchase, again and again until nobody was faster."""
    while True:
        with suppress(redis.WatchError):
            return watched(inventory, purchase)


def plain_read(inventory: Inventory, purchase: Purchase) -> Any:
    """As much of the plain purchase as may have company."""
    return inventory.read(purchase).receipt


@pytest.mark.parametrize("stock", [0, 1])
@pytest.mark.parametrize("buy", [plain_read, persistent])
def test_a_key_that_has_bought_is_never_told_sold_out(sale: Sale, inventory: Inventory, buy: Buy, stock: int) -> None:
    """Whichever command of a plain read or a watched purchase the last item is bought before with the same key: that
    one order is made, is the answer, and stays it.
    """
    bought: list[Receipt] = []

    def deliver_and_buy() -> None:
        sale.client.set(sale.keys.stock, 1)
        bought.append(inventory.sell(Purchase("ada", "g", key="k")))

    for place in itertools.count():
        sale.reset(stock)
        with overtaken(place, deliver_and_buy):
            receipt = buy(inventory, Purchase("ada", "g", key="k"))
        if len(bought) == place:
            break
        again = inventory.sell(Purchase("ada", "g", key="k"))
        assert receipt.order == again.order == bought[place].order
        assert sale.snapshot().orders == 1


def test_a_watched_sold_out_is_not_said_of_the_next_sale(sale: Sale, inventory: Inventory) -> None:
    """Whichever command of a watched purchase the sale is reset before, a buyer with a key buys from the new one."""
    resets: list[None] = []
    for place in itertools.count():
        sale.reset(0)
        with overtaken(place, lambda: resets.append(sale.reset(5))):
            receipt = persistent(inventory, Purchase("ada", "g", key="k"))
        if len(resets) == place:
            break
        assert (receipt.outcome, receipt.stock, receipt.replayed) == (Outcome.SOLD, 4, False)


def test_scripts_survive_a_redis_that_forgot_them(sale: Sale, inventory: Inventory) -> None:
    """After SCRIPT FLUSH, as after a restart, purchases go on."""
    sale.client.script_flush()
    assert [buy(inventory, Purchase("ada", "g")).stock for buy in (fenced, Inventory.sell)] == [9, 8]
