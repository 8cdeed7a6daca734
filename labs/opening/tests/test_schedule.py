"""A closed sale is opened once, not before its time, and never by a leader that comes late."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest

from app.sales.purchase import Purchase
from app.sales.sale import Sale
from app.sales.stock import Stock
from labs.opening.schedule import Closed, NotScheduled, OpeningSchedule
from tests.support.overtaking import overtaken
from tests.support.shop_fixtures import Process
from tests.support.shops import in_ms, section_of


@pytest.fixture
def process(process: Process) -> Process:
    """Makes the sale of two items as one more process sees it."""
    return partial(process, items=2)


def schedule_of(sale: Sale) -> OpeningSchedule:
    return OpeningSchedule(sale, "demo")


def buys(sale: Sale, item: str = "1") -> str:
    """The outcome of one purchase, with the generation if it was sold."""
    receipt = Stock(sale, item=item).sell(section_of(Purchase("ada", "g", item=item)))
    return f"sold {sale.generation}" if receipt.order else receipt.outcome.value


def closed(sale: Sale, in_s: int = -1) -> Closed:
    """The sale, closed until then with a stock of 3."""
    schedule_of(sale).set(3, in_ms(1000 * in_s))
    closed = schedule_of(sale).read()
    assert closed is not None
    return closed


@pytest.mark.parametrize(
    ("found", "token", "in_s", "answer"),
    [
        ("closed", 5, -1, "opened"),
        ("closed", 5, 60, "early"),
        ("closed", 3, -1, "fenced"),
        ("open", 5, -1, "over"),
        ("open", 3, -1, "fenced"),
        ("open", 0, -1, "opened"),  # without a token: what was sold is for sale once more
        ("cancelled", 5, -1, "over"),
        ("scheduled again", 5, -1, "over"),
        ("reset", 5, -1, "over"),
        ("nothing", 5, -1, "over"),
    ],
)
def test_what_opens_a_sale(process: Process, found: str, token: int, in_s: int, answer: str) -> None:
    """Under a token only a closed sale whose time has come opens, for the highest; no other answer changes anything."""
    sale, k = process(), process().keys
    schedule, plan = schedule_of(sale), closed(sale, in_s)
    sale.client.hset(f"{k.prefix}opener", mapping={"closed": plan.generation, "token": f"{4:020d}"})
    if found == "scheduled again":
        closed(sale)
    elif found == "cancelled":
        schedule.cancel()
    elif found == "reset":
        sale.reset(3)
    elif found == "nothing":
        sale.client.delete(k.generation, k.stock)
    elif found == "open":
        assert schedule.open(plan, 4)[0] == "opened"
        assert buys(sale).startswith("sold")
    before = sale.client.mget(k.initial, k.stock, k.generation)
    status, _ = schedule.open(plan, token or None)
    assert status == answer
    stock, generation = sale.client.mget(k.stock, k.generation)
    if answer == "opened":
        assert stock == "3"
        assert found == "open" or int(generation or 0) > int(plan.generation)
    else:
        assert sale.client.mget(k.initial, k.stock, k.generation) == before
    assert sale.client.hget(f"{k.prefix}opener", "token") == f"{max(token, 4):020d}"


def test_a_leader_that_dies_with_its_command_opens_nothing(process: Process) -> None:
    """The opening is one step of Redis: before it the sale is closed for all items, and the next leader opens it."""
    sale, other = process(), process()
    plan = closed(sale)
    with overtaken(0, partial(divmod, 1, 0)), suppress(ZeroDivisionError):
        schedule_of(sale).open(plan, 1)
    assert [buys(each, item) for each in (sale, other) for item in "12"] == ["sold_out"] * 4
    assert schedule_of(other).open(plan, 2)[0] == "opened"
    assert [buys(each, item)[:4] for each in (sale, other) for item in "12"] == ["sold"] * 4


def test_a_schedule_that_is_overtaken_closes_nothing(process: Process) -> None:
    """If a reset comes between its two steps the reset counts, and the administrator is told."""
    sale, other = process(), process()
    with overtaken(b"opening", lambda: other.reset(2)), pytest.raises(NotScheduled, match="at the same moment"):
        schedule_of(sale).set(3, in_ms(-1))
    assert schedule_of(sale).read() is None
    assert buys(sale).startswith("sold")
