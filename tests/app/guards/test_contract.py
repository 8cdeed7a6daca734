"""The contract of all guards: answer, ledger, section log, idempotency, items and the end of the stock."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from app import services
from app.contract.clock import now_ns
from app.guards import guards
from app.sales.purchase import Section
from app.sales.sale import Sale
from tests.support.shops import buy, ledger

each_guard = pytest.mark.parametrize("guard", [guard.name for guard in guards().values()])
IN_ONE_SCRIPT = ("redis-lua", "etcd-batch")  # which read and write at once
PAIRS = ("etcd-cohort", "etcd-batch")  # whose tokens are pairs: hold and turn


@pytest.fixture
def shop(make: Callable[..., Flask], tmp_path: Path) -> Flask:
    """A shop of three items that logs its sections, with a name that is not a file name and the smallest pool."""
    return make(instance="shop/a", section_log=tmp_path / "section-log", items=3, threads=1)


@pytest.fixture
def sale(shop: Flask) -> Sale:
    """The sale, which was not opened yet."""
    return services.of(shop).sale


def logged(tmp_path: Path, *, undecided: bool = False) -> list[dict[str, Any]]:
    """The lines of the section log, which is one file; sections in which nothing was decided only if wanted."""
    (file,) = (tmp_path / "section-log").glob("*.jsonl")
    assert file.name == f"shop-a-{os.getpid()}.jsonl"
    lines = [json.loads(line) for line in file.read_bytes().partition(b"\0")[0].splitlines()]
    sections = zip(lines[::2], lines[1::2], strict=True)
    return [line for section in sections if undecided or section[1]["outcome"] for line in section]


@each_guard
def test_a_purchase_is_answered_in_full(shop: Flask, guard: str) -> None:
    """The answer has order, stock left, instance, guard, token and times; the think time is in the critical section."""
    answer = shop.test_client().post(f"/stock/reduce?guard={guard}&buyer=ada&hold_ms=20")
    body = answer.get_json()
    assert answer.status_code == 200
    assert set(body) == {"outcome", "item", "order", "stock", "instance", "guard", "token", "waited_ms", "held_ms"}
    assert (body["outcome"], body["stock"], body["instance"], body["guard"]) == ("sold", 9, "shop/a", guard)
    assert re.fullmatch("[0-9a-f]{32}", body["order"])
    has_token = guard == "redis-fenced" or guard.startswith("etcd")
    assert isinstance(body["token"], list if guard in PAIRS else int) is has_token
    assert body["held_ms"] >= 20 or (guard == "redis-lua" and body["held_ms"] > 0)
    assert answer.headers["Cache-Control"] == "no-store"
    timing = re.fullmatch(r"wait;dur=([\d.]+), read;dur=([\d.]+), commit;dur=([\d.]+)", answer.headers["Server-Timing"])
    assert timing is not None
    waited, read, commit = map(float, timing.groups())
    assert waited == body["waited_ms"]
    assert read + commit < body["held_ms"] + 0.01  # all of them are rounded
    assert (read > 0) == (guard not in IN_ONE_SCRIPT)
    assert commit > 0


@each_guard
def test_a_key_buys_once_and_the_log_tells_why(shop: Flask, sale: Sale, tmp_path: Path, guard: str) -> None:
    """A retry gets the first order; another buyer or item gets 422; ledger and section log have one sale of item 2."""
    before = now_ns()
    first, again = (buy(shop, guard, item=2, key="k", buyer="ada", hold_ms=2) for _ in range(2))
    enter, leave, _, replay = logged(tmp_path)
    told = [[answer[name] for name in ("status", "order", "token", "stock", "item")] for answer in (first, again)]
    assert told[0] == told[1] == [200, first["order"], first["token"], 9, "2"]
    assert (first["replayed"], again["replayed"]) == (None, "true")
    for other in ({"buyer": "bob", "item": 2}, {"buyer": "ada", "item": 1}):
        refused = buy(shop, guard, key="k", **other)
        assert refused["status"] == 422
        assert "new key" in refused["detail"]
    assert [(entry["order"], entry["item"]) for entry in ledger(sale, "2")] == [(first["order"], "2")]
    assert {item: sale.snapshot(item).stock for item in sale.keys_of} == {"1": 10, "2": 9, "3": 10}
    assert {sale.snapshot(item).judge().sentence for item in sale.keys_of} == {"EXACT"}
    expected: dict[str, Any] = {"event": "enter", "buyer": "ada", "guard": guard, "instance": "shop/a", "item": "2"}
    expected |= {"pid": os.getpid(), "order": first["order"], "token": first["token"]}
    assert enter.items() >= expected.items()
    assert (leave["event"], leave["order"]) == ("leave", first["order"])
    assert [(line["outcome"], line["cause"]) for line in (leave, replay)] == [("sold", None), ("sold", "replayed")]
    assert before < enter["at"] < leave["commit_at"] < leave["at"]
    if guard not in IN_ONE_SCRIPT:
        assert enter["at"] < leave["read_at"] < leave["commit_at"] - 2_000_000


@each_guard
def test_sold_out_is_a_conflict_for_one_item(shop: Flask, sale: Sale, guard: str) -> None:
    """An empty stock is a 409 problem without an order, again and again; other items are still sold."""
    sale.snapshot()  # opens it
    sale.client.set(sale.keys_of["3"].stock, 0)
    answers = [buy(shop, guard, item=item) for item in (3, 3, 1, 3, 2)]
    assert [answer["status"] for answer in answers] == [409, 409, 200, 409, 200]
    for answer in (answers[0], answers[3]):
        assert (answer["outcome"], answer["order"], answer["stock"], answer["guard"]) == ("sold_out", None, 0, guard)
        assert (answer["title"], answer["type"]) == ("Sold out", "urn:stock-flash-sale:problem:sold_out")
        assert answer["detail"]
        assert answer["retry_after"] is None
    assert ledger(sale, "3") == []


# The section log


def test_each_try_is_a_section(shop: Flask, sale: Sale, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An overtaken section ends without an outcome; the next one finds nothing and sends no write."""
    monkeypatch.setattr(Section, "think", lambda _: sale.client.set(sale.keys.stock, 0))
    assert buy(shop, "redis-watch")["outcome"] == "sold_out"
    _, first, _, second = logged(tmp_path, undecided=True)
    assert first["outcome"] is None
    assert first["commit_at"] is not None
    assert (second["outcome"], second["commit_at"]) == ("sold_out", None)
    assert first["read_at"] < second["read_at"]
