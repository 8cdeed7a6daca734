"""The sale as a whole: reset, and the verdict from the ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.sales.sale import Sale
from app.sales.slots import Snapshot

EXAMPLES = json.loads((Path(__file__).parents[2] / "data/verdicts.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["what"])
def test_the_ledger_decides(example: dict[str, Any]) -> None:
    """The verdict comes from what the ledger says was sold, whatever the counter looks like."""
    now = Snapshot(initial=example["stock"], stock=example["stock_left"], lucky=0, orders=example["sold"])
    verdict = now.judged(gave_up=example["gave_up"], busy=example.get("busy", 0), failed=example["failed"])
    assert (verdict, now.lost_updates) == (example["verdict"], example["lost_updates"])


def test_a_reset_keeps_what_was_sold_before(sale: Sale) -> None:
    """Counters and ledger of the last sale with orders can still be read, also after a second reset without any."""
    generation = sale.client.get(sale.keys.generation)
    sale.client.decr(sale.keys.stock)
    sale.client.rpush(sale.keys.orders, "first", "second")
    sale.reset(5)
    sale.reset(6)
    previous = {"initial": "10", "stock": "9", "lucky": "0", "generation": generation}
    assert sale.client.hgetall(sale.keys.previous) == previous
    assert sale.client.lrange(sale.keys.previous_orders, 0, -1) == ["first", "second"]
