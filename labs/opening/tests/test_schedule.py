"""A closed sale is opened once, not before its time, and never by a leader that comes late."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from app.sales.opening import Opened
from app.sales.purchase import Purchase
from app.sales.refusals import NotOpen, SaleLost
from app.sales.sale import Sale
from app.sales.stock import Stock, fence_text
from app.sharding.shards import ShardedStock
from labs.opening.schedule import OPEN, NoSchedule, Schedule
from lock import EtcdUnavailable
from tests.support.lock import delete
from tests.support.overtaking import overtaken
from tests.support.shop_fixtures import Process
from tests.support.shops import in_ms, section_of


@pytest.fixture
def process(process: Process) -> Process:
    """Makes the sale of two items as one more process sees it."""
    return partial(process, items=2)


def buys(sale: Sale, item: str = "1") -> str:
    """The outcome of one purchase, with the generation if it was sold."""
    receipt = Stock(sale, item=item).sell(section_of(Purchase("ada", "g", item=item)))
    return f"sold {sale.generation}" if receipt.order else receipt.outcome.value


def dies(_: object) -> None:
    """Stands for a leader's crash before it tells etcd."""
    raise EtcdUnavailable("unavailable")


def closed(schedule: Schedule) -> Opened:
    """The sale that is scheduled."""
    opened = schedule.read()
    assert opened is not None
    assert not opened.is_open
    return opened


@pytest.mark.parametrize(
    ("found", "token", "in_s", "answer"),
    [
        ("closed", 5, -1, "opened"),
        ("closed", 5, 60, "early"),
        ("closed", 3, -1, "fenced"),
        ("open", 5, 60, "open"),
        ("open", 3, -1, "fenced"),
        ("open", 0, 60, "opened"),  # without a token: what was sold is for sale once more
        ("scheduled again", 5, -1, "generation"),
        ("nothing", 5, -1, "generation"),
    ],
)
def test_what_opens_a_sale(process: Process, found: str, token: int, in_s: int, answer: str) -> None:
    """Under a token only a closed sale whose time has come opens, for the highest; no other answer changes anything."""
    sale = process()
    schedule = Schedule(sale)
    schedule.set(3, in_ms(-1))
    late = closed(schedule)
    k, opening, opener = sale.keys, late.opening, f"{sale.keys.prefix}opener"
    if found == "scheduled again":
        schedule.set(3, in_ms(-1))
    elif found == "nothing":
        sale.client.delete(k.stock)
    elif found == "open":
        sale.client.mset({k.stock: 1, k.generation: opening.generation})
    sale.client.hset(opener, mapping={"generation": opening.generation, "token": f"{4:020d}"})
    before = sale.client.mget(k.initial, k.stock, k.generation)
    asked: list[str | int] = [late.generation, opening.generation, 3, in_ms(in_s * 1000), fence_text(token or None)]
    status, *_ = OPEN.run(sale.client, [k.initial, k.stock, k.generation, opener], asked)
    assert status == answer
    after = ["3", "3", opening.generation] if answer == "opened" else before
    assert sale.client.mget(k.initial, k.stock, k.generation) == after
    assert sale.client.hget(opener, "token") == f"{max(token, 4):020d}"


def test_a_leader_that_dies_before_it_tells_etcd(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first purchase anywhere tells etcd that the sale is open; the next leader finds nothing left to do."""
    sale, other, dying = process(), process(), process()
    Schedule(sale).set(2, in_ms(-1))
    monkeypatch.setattr(dying, "confirm", dies)
    with pytest.raises(EtcdUnavailable):
        Schedule(dying).open(1)
    assert not Schedule(other).read().is_open  # type: ignore[union-attr]
    assert buys(other).startswith("sold")
    assert Schedule(sale).read().is_open  # type: ignore[union-attr]
    assert Schedule(sale).open(2) == ("opened", "")
    assert sale.snapshot().stock == 1


def test_a_leader_that_dies_between_the_slots(process: Process) -> None:
    """While the treasury is closed the sale is, in every slot; the next leader opens what is left."""
    sale = process()
    Schedule(sale).set(2, in_ms(-1))
    with overtaken(2, partial(dies, None)), pytest.raises(EtcdUnavailable):
        Schedule(sale).open(1)
    stock = ShardedStock(process(), "1")
    for shard in stock.shards:
        with pytest.raises(NotOpen):
            stock.sell(shard, [section_of(Purchase("ada", "etcd-sharded"))])
    assert Schedule(sale).open(2) == ("opened", "")
    assert sale.snapshot().judge().sentence == "EXACT"


def test_late_news_of_a_schedule_changes_nothing(process: Process) -> None:
    """A leader that tells etcd late opens no later schedule; one that is noted after a reset closes no open sale."""
    sale = process()
    Schedule(sale).set(2, in_ms(-1))
    late = closed(Schedule(sale))
    Schedule(sale).set(3, in_ms(60_000))
    assert not sale.confirm(late).is_open
    sale.reset(2)
    sale.note_closed(late)
    assert sale.closed is None


@pytest.mark.parametrize("items", [1, 3])
def test_a_scheduled_sale_opens_with_other_items(process: Process, items: int) -> None:
    """Instances that were restarted with fewer items, or more, open those that are scheduled; new ones need a reset."""
    Schedule(process()).set(2, in_ms(-1))
    restarted = process(items=items)
    assert Schedule(restarted).open(1) == ("opened", "")
    assert buys(restarted).startswith("sold")
    if items == 3:
        with pytest.raises(SaleLost):
            buys(restarted, "3")
        restarted.reset(2)
        assert buys(restarted, "3").startswith("sold")


def test_an_etcd_that_forgot_a_schedule_does_not_open_the_sale(process: Process) -> None:
    """Redis still says that the sale is closed, and a process that starts then adopts that."""
    sale = process()
    Schedule(sale).set(2, in_ms(60_000))
    delete(sale.record.client, sale.record.key)
    for each in (process(), sale):
        with pytest.raises(NotOpen):
            buys(each)


STEPS = [
    *("set", "set later", "cancel", "reset", "open", "open late", "open, die"),
    *("wipe", "restore", "save", "buy", "buy"),
]


@examples(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.booleans()), max_size=30))
def test_whatever_happens_no_opening_sells_more_than_its_stock(process: Process, steps: list[tuple[str, bool]]) -> None:
    """With dying or late leaders, wipes and old copies, a generation sells at most 2, and none while it is closed."""
    sales, sold, token, copy = [process(), process()], Counter[str](), 0, dict[str, str]()
    sales[0].reset(2)
    for step, which in steps:
        sale, token = sales[which], token + 1
        schedule, k = Schedule(sale), sale.keys
        with suppress(NotOpen, NoSchedule, SaleLost, EtcdUnavailable), pytest.MonkeyPatch.context() as patch:
            if step == "open, die":
                patch.setattr(sale, "confirm", dies)
            if step.startswith("set"):
                schedule.set(2, in_ms(60_000 if step == "set later" else -1))
            elif step.startswith("open"):
                schedule.open(token - 5 if step == "open late" else token)
            elif step in ("cancel", "reset"):
                schedule.cancel() if step == "cancel" else sale.reset(2)
            elif step == "wipe":
                sale.client.delete(*vars(k).values())
            elif step == "save":  # of a closed sale: what was sold before a copy cannot be known from it
                stock, generation = sale.client.mget(k.stock, k.generation)
                copy = {k.stock: stock, k.generation: str(generation)} if stock == "closed" else copy
            elif step == "restore" and copy:
                sale.client.mset(copy)
            elif step == "buy":
                before = schedule.read()
                if (outcome := buys(sale)).startswith("sold "):
                    sold[outcome] += 1
                    assert before is not None
                    assert before.is_open or (before.opens_at_ms or in_ms(1)) <= in_ms(0)
    assert all(count <= 2 for count in sold.values())
