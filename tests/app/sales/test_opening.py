"""What was opened is known in etcd as well: a Redis without it sells nothing before a reset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from unittest.mock import Mock, patch

import pytest
import redis

from app.config.settings import Settings
from app.sales.opening import OpeningRecord
from app.sales.purchase import Purchase
from app.sales.redis_cluster import connect
from app.sales.refusals import BeingReset, PurchaseError, RecordLost, SaleLost
from app.sales.sale import Sale
from app.sales.snapshot import Snapshot
from app.sales.stock import Stock
from loadtest.stack.servers import Etcd, Redis
from lock import EtcdUnavailable
from tests.support.lock import delete
from tests.support.overtaking import overtaken
from tests.support.shop_fixtures import Process
from tests.support.shops import at_once, section_of
from tests.support.waiting import assert_raises, wait_until


@pytest.fixture
def asked() -> Iterator[Mock]:
    """Counts how often etcd is asked for the record."""
    with patch.object(OpeningRecord, "read", autospec=True, side_effect=OpeningRecord.read) as asked:
        yield asked


def wipe(sale: Sale) -> None:
    """Redis loses all that it has of the sale."""
    sale.client.delete(*(name for slot in sale.slots_of["1"] for name in vars(slot.keys).values()))


def buys(sale: Sale) -> int:
    """The stock that one purchase leaves; raises what refuses it."""
    stock = Stock(sale).sell(section_of(Purchase("ada", "g"))).stock
    assert isinstance(stock, int)
    return stock


def refusal_of(sale: Sale) -> PurchaseError | None:
    """What refuses a purchase."""
    try:
        buys(sale)
    except PurchaseError as error:
        return error
    return None


def test_the_first_start_opens_the_sale_once(process: Process) -> None:
    """Eight processes start at once: etcd and all of them agree on one generation, and no sale is lost."""
    sales = [process() for _ in range(8)]
    assert sorted(at_once(8, lambda number: buys(sales[number]))) == list(range(2, 10))
    first = sales[0]
    assert process().snapshot().stock == 2
    (kv,) = first.record.client.get_prefix(first.record.key).keys
    assert json.loads(kv.value) == [first.client.get(first.keys.generation), 10, True, None]
    assert kv.lease_id == 0, "it has to outlive every process"


@pytest.mark.parametrize("lost", ["everything", "the stock", "the generation", "what came after an old copy"])
def test_a_redis_that_lost_the_sale_sells_nothing_before_a_reset(process: Process, lost: str) -> None:
    """Processes old and new neither sell, show nor open the sale; a reset opens it."""
    sale = process()
    sale.reset(5)
    old_copy = {key: str(sale.client.get(key)) for key in (sale.keys.stock, sale.keys.generation)}
    sale.reset(3)
    assert buys(sale) == 2
    if lost == "what came after an old copy":
        sale.client.mset(old_copy)
    elif lost == "everything":
        wipe(sale)
    else:
        sale.client.delete(sale.keys.stock if lost == "the stock" else sale.keys.generation)
    if lost == "what came after an old copy":  # which might be a reset that is under way, for a moment
        assert_raises(BeingReset, buys, sale)
        wait_until(lambda: "lost this sale" in str(refusal_of(sale)))
    for each in (sale, process(), sale):
        assert_raises(SaleLost, buys, each, match="Redis has lost this sale: reset it")
        assert_raises(SaleLost, each.snapshot)
    process().reset(4)
    assert (buys(sale), process().snapshot()) == (3, Snapshot(initial=4, stock=3, lucky=1, orders=1))


def test_a_late_write_is_no_sale(process: Process) -> None:
    """A purchase that was thinking while Redis lost its data is refused and leaves no key."""
    sale = process()
    stock = Stock(sale)
    section = section_of(Purchase("ada", "none"))
    reading = stock.read(section)
    wipe(sale)
    with pytest.raises(SaleLost):
        stock.write(section, reading)
    assert not sale.client.exists(*vars(sale.keys).values())


def test_etcd_is_asked_once_and_not_for_every_refusal(process: Process, asked: Mock) -> None:
    """The answer of etcd is kept, both while Redis has the sale and after it has lost it."""
    sale = process()
    for _ in range(5):
        buys(sale)
    wipe(sale)
    at_once(16, lambda _: assert_raises(SaleLost, buys, sale))
    assert asked.call_count == 2


def test_without_etcd_sales_go_on_while_redis_has_them(process: Process, fresh_etcd: Etcd) -> None:
    """While etcd is frozen, known sales go on, and a process that does not know the sale is refused."""
    sale, newcomer = (process(fresh_etcd.endpoint, timeout=1.0) for _ in range(2))
    assert buys(sale) == 9
    fresh_etcd.pause()
    try:
        assert buys(sale) == 8
        assert_raises(EtcdUnavailable, buys, newcomer)
        assert_raises(EtcdUnavailable, sale.reset)
        assert buys(sale) == 7, "a reset that failed has changed nothing"
    finally:
        fresh_etcd.resume()
    assert buys(newcomer) == 6


def test_a_frozen_redis_is_waited_for_once(
    process: Process, settings: Settings, fresh_redis: Redis, monkeypatch: pytest.MonkeyPatch, asked: Mock
) -> None:
    """Threads that came before the treasury was found frozen share one timeout, with one error for each."""
    record = process().record
    process().reset()

    def ask() -> Exception:
        with pytest.raises(redis.RedisError) as caught:
            newcomer.reconcile("1", "")
        return caught.value

    monkeypatch.setattr("app.sales.sale.time", Mock(monotonic=lambda: 1.0))  # all come when the first one does
    with connect(fresh_redis.url, connections=1, timeout=1.0) as client:
        newcomer = Sale(client, settings.sale, record=record, stock=10)
        fresh_redis.pause()
        errors = [ask() for _ in range(3)]
        fresh_redis.resume()
    assert (len({id(error) for error in errors}), asked.call_count) == (3, 1)


@pytest.mark.parametrize("crash", range(6))
def test_a_reset_that_ends_halfway_never_sells_twice(process: Process, crash: int) -> None:
    """A reset that crashes before any command leaves the old sale or none; the next reset opens a new one."""
    sale = process()
    sale.reset(1)
    assert buys(sale) == 0

    class Crashed(Exception):
        pass

    def end() -> None:
        raise Crashed

    try:
        with overtaken(crash, end):
            sale.reset(5)
        assert crash >= 3, "before that, the new sale is not in Redis"
        assert buys(process()) == 4
    except Crashed:
        for each in (sale, process()):
            with suppress(SaleLost, BeingReset):
                assert buys(each) == 0
    sale.reset(2)
    assert (buys(sale), buys(process())) == (1, 0)


def test_resets_at_once_agree(process: Process) -> None:
    """After concurrent resets, etcd and Redis have the same generation."""
    sales = [process() for _ in range(6)]
    for _ in range(5):
        at_once(6, lambda number: sales[number].reset(number))
    assert len({each.snapshot() for each in [*sales, process()]}) == 1


def test_a_wiped_etcd_adopts_the_sale_from_redis(process: Process) -> None:
    """The answers are kept; a process that knows the sale does not open it if both are wiped, one that starts does."""
    sale = process()
    first, again = (section_of(Purchase("ada", "g", key="k")) for _ in range(2))
    assert Stock(sale).sell(first).stock == 9
    delete(sale.record.client, sale.record.key)
    assert (buys(sale), buys(process(items=2))) == (8, 7)
    assert Stock(sale).sell(again).order == first.purchase.order
    delete(sale.record.client, sale.record.key)
    wipe(sale)
    assert_raises(RecordLost, buys, sale)
    assert buys(process()) == 9


def test_a_reset_is_above_an_opening_that_etcd_does_not_know(process: Process) -> None:
    """If Redis gets a generation from the future amid a reset, it begins again above it; the next one is higher."""
    sale = process()
    sale.reset()
    with overtaken(5, lambda: sale.client.set(sale.keys.generation, 2**52)):  # before the write of the treasury
        sale.reset(3)
    assert sale.snapshot().stock == 3
    assert int(sale.generation) == 2**52 + 1
    wipe(sale)
    sale.reset()
    assert int(sale.client.get(sale.keys.generation) or 0) == 2**52 + 2
