"""The generation: Redis alone tells that a sale was reset or lost; etcd only that it was opened before."""

from __future__ import annotations

from functools import partial
from unittest.mock import Mock, patch

import pytest

from app.sales.purchase import Purchase
from app.sales.refusals import EtcdLost, SaleLost, SaleReset
from app.sales.sale import Sale
from app.sales.snapshot import SaleSnapshot
from app.sales.stock import Stock
from loadtest.stack.servers import Etcd
from lock import Client, EtcdUnavailable
from tests.support.lock import delete
from tests.support.overtaking import overtaken
from tests.support.shop_fixtures import Process
from tests.support.shops import at_once, section_of
from tests.support.waiting import assert_raises


@pytest.fixture
def short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sale that was opened before, and is gone, is known to be lost after so many looks."""
    monkeypatch.setattr("app.sales.sale._POLL_S", 0.005)


def wipe(sale: Sale) -> None:
    """Redis loses all that it has of the sale."""
    sale.client.delete(*vars(sale.keys).values())


def buys(sale: Sale, item: str = "1", **purchase: str) -> int:
    """The stock that one purchase leaves; raises what refuses it."""
    receipt = Stock(sale, item=item).sell(section_of(Purchase("ada", "g", item, **purchase)))  # type: ignore[arg-type]
    assert receipt.stock is not None
    return receipt.stock


def test_the_first_start_opens_the_sale_once(process: Process) -> None:
    """Eight processes start at once: one of them opens the sale, and all sell from it; etcd keeps that for good."""
    sales = [process() for _ in range(8)]
    assert sorted(at_once(8, lambda number: buys(sales[number]))) == list(range(2, 10))
    assert process().snapshot().stock == 2
    (kv,) = sales[0].etcd.get_prefix(sales[0].opened_key).keys
    assert kv.lease_id == 0, "it has to outlive every process"


@pytest.mark.usefixtures("short_polls")
@pytest.mark.parametrize("lost", ["everything", "the stock", "the generation", "what came after an old copy"])
def test_a_redis_that_lost_the_sale_sells_nothing_before_a_reset(process: Process, lost: str) -> None:
    """The process neither sells, shows nor opens the sale; a reset opens it, and new processes sell then, too.

    A purchase that was thinking meanwhile is refused as lost, not as reset, and writes nothing.
    """
    sale = process()
    sale.reset(5)
    keys = [*vars(sale.keys).values()]
    old_copy = {key: str(sale.client.get(key)) for key in (sale.keys.stock, sale.keys.generation)}
    sale.reset(3)
    assert buys(sale) == 2
    thinking = section_of(Purchase("eve", "none"))
    reading = Stock(sale).read(thinking)
    alone = {"the stock": sale.keys.stock, "the generation": sale.keys.generation}
    sale.client.delete(*([alone[lost]] if lost in alone else keys))
    if lost == "what came after an old copy":
        sale.client.mset(old_copy)
    left = sale.client.exists(*keys)
    assert_raises(SaleLost, Stock(sale).write, thinking, reading)
    assert sale.client.exists(*keys) == left
    # One that begins now cannot know an old copy: "After every restore, reset."
    for each in (sale, sale) if lost == "what came after an old copy" else (sale, process(), sale):
        assert_raises(SaleLost, buys, each, match="Redis has lost this sale: reset it")
        assert_raises(SaleLost, each.snapshot)
    process().reset(4)
    assert buys(sale) == 3
    assert process().snapshot() == SaleSnapshot(initial=4, stock=3, lucky=1, orders=1)


@pytest.mark.usefixtures("short_polls")
def test_no_click_asks_etcd(process: Process) -> None:
    """Not while Redis has the sale, over a reset, nor after a loss; a process that begins then asks once."""
    sale, newcomer, late = process(), process(), process()
    sale.reset()
    with patch.object(Client, "call", autospec=True, side_effect=Client.call) as etcd_calls:
        assert [buys(sale), buys(newcomer)] == [9, 8]
        sale.client.incr(sale.keys.generation)  # as a reset
        assert buys(newcomer) == 7
        wipe(sale)
        at_once(16, lambda _: assert_raises(SaleLost, buys, newcomer))
        assert etcd_calls.call_count == 0
        for _ in range(3):
            assert_raises(SaleLost, buys, late)
        assert etcd_calls.call_count == 1


@pytest.mark.usefixtures("short_polls")
def test_without_etcd_a_sale_that_redis_has_is_sold_and_reset(process: Process, fresh_etcd: Etcd) -> None:
    """While etcd is frozen, also a process that has just begun sells and resets; it cannot open a first sale."""
    assert buys(process(fresh_etcd.endpoint)) == 9
    sale, newcomer = (process(fresh_etcd.endpoint, timeout=0.2) for _ in range(2))
    fresh_etcd.pause()
    try:
        assert [buys(sale), buys(newcomer)] == [8, 7]
        newcomer.reset(5)
        assert buys(sale) == 4
        wipe(sale)
        assert_raises(SaleLost, buys, sale)
        assert_raises(EtcdUnavailable, buys, process(fresh_etcd.endpoint, timeout=0.2))
        assert_raises(EtcdUnavailable, sale.reset)
    finally:
        fresh_etcd.resume()
    assert_raises(SaleLost, buys, process(fresh_etcd.endpoint))


def test_a_purchase_belongs_to_the_sale_in_which_it_was_clicked(process: Process) -> None:
    """One that was clicked before a reset, here or elsewhere, is refused; one that was clicked after it is not."""
    sale, other = process(), process()
    sale.reset()
    for reset in (sale.reset, other.reset):
        assert buys(sale) == 9
        before = section_of(Purchase("long gone", "g"))
        reset()
        after = section_of(Purchase("ada", "g"))
        assert Stock(sale).sell(after).stock == 9
        with pytest.raises(SaleReset, match="was reset while this purchase was waiting"):
            Stock(sale).sell(before)
        sale.reset()


@pytest.mark.parametrize("crash", range(6))
def test_a_reset_that_ends_halfway_never_sells_twice(process: Process, crash: int) -> None:
    """A reset that crashes before any command leaves the old sale or opens the new one; the next one opens another."""
    sale = process()
    sale.reset(1)
    assert buys(sale) == 0
    try:
        with overtaken(crash, Mock(side_effect=ZeroDivisionError)):
            sale.reset(5)
    except ZeroDivisionError:
        assert process().snapshot().initial in (1, 5)
    sale.reset(2)
    assert [buys(sale), buys(process())] == [1, 0]


@pytest.mark.usefixtures("short_polls")
def test_an_opening_that_ends_halfway_opens_nothing_later(process: Process) -> None:
    """If the process dies between the key in etcd and its reset, the sale is lost: it may have been open."""
    dying = process()
    with pytest.raises(ZeroDivisionError), patch.object(dying, "reset", side_effect=ZeroDivisionError):
        buys(dying)
    for each in (dying, process()):
        assert_raises(SaleLost, buys, each)
    dying.reset()
    assert buys(dying) == 9


@pytest.mark.usefixtures("short_polls")
def test_etcd_that_was_wiped_is_told_of_the_sale(process: Process) -> None:
    """The sale and its answers go on; the next probe or start notes the sale again, so that it is not opened twice."""
    sale = process()
    assert buys(sale, key="k") == 9
    delete(sale.etcd, sale.opened_key)
    assert [buys(sale, key="k"), buys(process())] == [9, 8]
    sale.check()
    wipe(sale)
    for each in (sale, process()):
        assert_raises(SaleLost, buys, each)


def test_a_fence_above_etcds_revision_is_reported(process: Process) -> None:
    """An etcd that counts from one again cannot sell under a token, which the probe says until a reset."""
    sale = process()
    sale.reset()
    sale.client.set(sale.keys.fence, f"{2**62:020d}")
    assert_raises(EtcdLost, sale.check, match="etcd has lost this sale: reset it")
    sale.reset()
    sale.check()


def test_a_generation_rises_whatever_the_clock_says(process: Process) -> None:
    """A reset is above a generation from the future, in Redis or in this process; each other process follows."""
    sale, other = process(), process()
    sale.reset()
    assert buys(other) == 9
    sale.client.set(sale.keys.generation, 2**52)
    sale.reset(3)
    assert_raises(SaleReset, buys, other)  # it cannot know whether its click was before
    assert sale.generation == str(2**52 + 1)
    assert buys(other) == 2
    wipe(sale)
    sale.reset()
    assert_raises(SaleReset, buys, other)
    assert sale.generation == str(2**52 + 2)
    assert buys(other) == 9


def test_items_share_the_generation(process: Process) -> None:
    """A reset by one process opens the items that it knows; a process with more of them has them after its own."""
    one, three = process(), process(items=3)
    one.reset(5)
    assert buys(three) == 4
    assert_raises(SaleLost, partial(buys, item="3"), three)
    three.reset(5)
    assert [buys(three, item) for item in "123"] == [4, 4, 4]
