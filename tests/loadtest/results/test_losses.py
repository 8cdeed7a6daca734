"""Lost updates: what each write made of the counter, which sales it overwrote, and when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.orders import Order
from loadtest.results.losses import Losses
from loadtest.results.record import CriticalSection, Point
from tests.loadtest.results.test_audit import section

EXAMPLES = json.loads((Path(__file__).parents[2] / "data/losses.json").read_text(encoding="utf-8"))
STOCK = 300


def losses_of(example: dict[str, Any]) -> Losses:
    items = example.get("items", ["1"] * len(example["ledger"]))
    ledger = [Order(order, f"of {order}", item=item) for order, item in zip(example["ledger"], items, strict=True)]
    sections = [section(n, 0, 0, **{"read_ms": None, **each}) for n, each in enumerate(example["sections"])]
    return Losses.of(ledger, sections, STOCK)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["what"])
def test_losses_are_those_of_slow_motion(example: dict[str, Any]) -> None:
    """Each shared example has what each write lost, and each sale that is missing with the one over it."""
    found = losses_of(example)
    assert [write.lost for write in found.writes] == example["losses"]
    assert [[sale.order, write.entry.order] for sale, write in found.pairs] == example["overwritten"]
    assert [len(write.overwrote) for write in found.losing] == [write.lost for write in found.losing]


@given(lags=st.lists(st.integers(0, 6), max_size=40))
def test_losses_add_up_to_the_lost_updates(lags: list[int]) -> None:
    """Whatever each purchase had read: orders missing from the counter, signed losses and overwritten sales agree."""
    counters, sections, ledger = [STOCK], [], []
    for number, lag in enumerate(lags):
        read = counters[-1 - min(lag, number)]  # the counter some writes ago
        counters.append(read - 1)
        sections.append(section(number, 0, 1, stock_read=read, stock=read - 1))
        ledger.append(Order(f"order-{number}", f"buyer-{number}"))
    found = Losses.of(ledger, sections, STOCK)
    assert found.total == len(ledger) + counters[-1] - STOCK == len(found.pairs)


def bought(number: int, read: tuple[int, float], sent: float, answered: float) -> CriticalSection:
    """A purchase that knew the stock at a time, and sent its write and had the answer at others."""
    stock, read_ms = read
    points = (Point("read", 1, read_ms), Point("write", 1, sent), Point("wrote", 1, answered))
    times = {"read_ms": read_ms - 1, "commit_ms": sent, "points": points}
    return section(number, 0.0, answered + 1, stock_read=stock, stock=stock - 1, **times)


def test_a_write_came_before_those_that_saw_it() -> None:
    """Its time is not after its answer, the next write, or a read of its number; nor before it was sent."""
    sections = [bought(0, (300, 1), 2, 9), bought(1, (299, 5), 6, 20), bought(2, (298, 30), 7, 15)]
    found = Losses.of([Order(f"order-{n}", f"buyer-{n}") for n in range(3)], sections, STOCK)
    assert [write.at_ms for write in found.writes] == pytest.approx([5, 15, 15], abs=0.001)
    assert [write.at_ms for write in found.writes] == sorted(write.at_ms or 0 for write in found.writes)
