"""Reading the sale as it goes on: every order and critical section once, and none lost to a reset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from app.board.sources import ledger
from app.board.sources.ledger import LedgerReader
from app.config.settings import Settings
from app.contract.orders import Order
from app.contract.section_log import SectionTail
from app.sales.purchase import Purchase, Section
from app.sales.redis_client import connect
from app.sales.sale import Sale
from app.sales.snapshot import SaleSnapshot
from app.sales.stock import Stock


@pytest.fixture
def reader(settings: Settings) -> Iterator[LedgerReader]:
    with connect(settings.redis_url, connections=1) as client:
        yield LedgerReader(client, settings.sale)


def buy(sale: Sale, *instances: str) -> None:
    for instance in instances:
        Stock(sale).sell(Section(Purchase("ada", "redis-lua", instance=instance)))


def sellers(orders: list[Order]) -> list[str]:
    return [order.instance for order in orders]


def read(reader: LedgerReader) -> ledger.LedgerReading:
    reading = reader.read()
    assert reading is not None
    return reading


def test_a_sale_that_was_never_opened(reader: LedgerReader, settings: Settings) -> None:
    """Looking on opens nothing."""
    assert reader.read() is None
    with redis.Redis.from_url(settings.redis_url) as client:
        assert not client.keys(f"*{settings.sale}*")


def test_each_order_is_read_once(reader: LedgerReader, sale: Sale) -> None:
    """A reading brings the counters, and the orders since the last one; after a reset, those of the new sale."""
    buy(sale, "a", "b")
    first = read(reader)
    assert sellers(first.new) == ["a", "b"]
    assert first.snapshot == SaleSnapshot(initial=10, stock=8, lucky=2, orders=2)
    buy(sale, "c")
    second = read(reader)
    assert [(order.instance, order.guard) for order in second.new] == [("c", "redis-lua")]
    assert second.generation == first.generation
    assert read(reader).new == []
    sale.reset(5)
    buy(sale, "d")
    after = read(reader)
    assert (sellers(after.new), after.generation != first.generation) == (["d"], True)


def test_a_run_that_was_missed_is_not_mistaken(reader: LedgerReader, sale: Sale) -> None:
    """After two resets with a run in between, the end of the one that was watched is not known, and is not made up."""
    buy(sale, "a")
    read(reader)
    sale.reset(5)
    buy(sale, "b")
    sale.reset(5)
    assert read(reader).ended is None


def enter(order: str, at: int = 1) -> dict[str, Any]:
    purchase = {"order": order, "item": "1", "buyer": "ada", "guard": "etcd", "token": 7}
    return {"at": at, "event": "enter", **purchase, "instance": "shop-a", "pid": 1, "thread": "t", "line": 1}


def append(path: Path, *lines: str | dict[str, Any]) -> None:
    with path.open("a") as file:
        file.writelines((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    """A board that begins late does not read for minutes what happened hours ago."""
    path = tmp_path / "shop-a-1.jsonl"
    append(path, *(enter(str(number)) for number in range(100)))
    tail = SectionTail(tmp_path, most_bytes=400)  # a line has some 150
    assert [each.order for each in tail.poll()] == ["98", "99"]
    append(path, enter("100"))
    assert [each.order for each in tail.poll()] == ["100"]
