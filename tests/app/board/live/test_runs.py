"""A run of the sale: its orders and sections, its end, and its verdict."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.board.live import runs as module
from app.board.live.runs import SaleRun
from app.board.sources.heartbeats import HeartbeatReader
from app.board.sources.ledger import LedgerReading
from app.contract.clock import now_ns
from app.contract.orders import Order
from app.contract.section_log import LoggedSection
from app.sales.snapshot import SaleSnapshot
from tests.support.shops import snapshot_of

EXAMPLES = json.loads((Path(__file__).parents[3] / "data/verdicts.json").read_text(encoding="utf-8"))


def section(number: int, entered: int, left: int | None) -> LoggedSection:
    return LoggedSection(number, entered, str(number), "ada", "etcd", None, "shop-a", 1, "t", left=left)


def order(guard: str, at_ms: int = 0) -> Order:
    return Order("1", "ada", "shop-a", guard, at_ms=at_ms)


def run_of(began_s: float = 1000.0) -> SaleRun:
    """A run that began then, with ten items."""
    return SaleRun(str(int(began_s * 1e6)), SaleSnapshot(initial=10, stock=10, lucky=0, orders=0))


def test_sections_belong_to_the_run_in_which_they_began() -> None:
    """When the next run turns out to have begun, its first sections are handed to it."""
    run = run_of()
    early, own, late = (section(n, run.began_ns + at, None) for n, at in ((1, -1), (2, 5), (3, 50)))
    assert run.add_sections([early, own, late]) == [own, late]
    ended = LedgerReading(run.generation, SaleSnapshot(initial=10, stock=9, lucky=1, orders=1), [order("etcd")])
    assert run.end(run.began_ns + 20, ended) == [late]
    assert list(run.sections.values()) == [own]
    assert (run.summary()["orders"], run.summary()["guard"], run.orders) == (1, "etcd", ["1"])


def test_a_run_is_cut_visibly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections beyond the limit are dropped, and the run says so; its figures count all orders."""
    monkeypatch.setattr(module, "MOST_SECTIONS", 2)
    run = run_of()
    run.add_sections(section(number, run.began_ns + number, None) for number in (1, 2))
    run.add_orders(order("etcd", at_ms) for at_ms in (1, 2, 9))
    assert not run.cut
    ended = section(1, run.began_ns + 1, run.began_ns + 2)
    assert run.add_sections([section(9, run.began_ns + 9, None), ended]) == [ended]
    assert (run.cut, len(run.sections), len(run.orders)) == (True, 2, 2)
    assert (run.summary()["by_instance"], run.summary()["selling_ms"]) == ({"shop-a": 3}, 8)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["what"])
def test_a_run_that_is_over_has_the_verdict_of_the_load_test(
    example: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buyers that gave up or were not served count as soon as all have their answers, and not before."""
    monkeypatch.setattr(module, "QUIET_S", 0.0)
    now = snapshot_of(example)
    run = SaleRun("1000000000", now)
    given = {"sold": "sold", "sold_out": "sold_out", "lock_timeout": "gave_up", "unavailable": "failed"}
    outcomes = Counter({outcome: example.get(name, 0) for outcome, name in given.items()})
    run.add_orders(order("etcd") for _ in range(example["sold"]))
    run.answered(Counter(), in_hand=1, lost=0)
    run.answered(outcomes, in_hand=1, lost=0)
    assert (run.verdict, run.verdict.lost_updates) == (now.judge(), example["lost_updates"])
    run.answered(outcomes, in_hand=0, lost=0)
    told = [run.summary()[name] for name in ("verdict", "gave_up")]
    assert told == [example["verdict"], example["gave_up"]]


Beat = Callable[..., HeartbeatReader]


@pytest.fixture
def beat(tmp_path: Path) -> Beat:
    """Writes one heartbeat of the instance's process, whose id is always 1, and returns what has read all of them."""
    reader = HeartbeatReader(tmp_path)

    def beat(at: int, *, began: int = 0, in_hand: int = 0, **outcomes: int) -> HeartbeatReader:
        process = {"at": at, "instance": "shop-a", "pid": 1, "began": began}
        told = {**process, "threads": 8, "in_hand": in_hand, "queued": 0, "outcomes": outcomes}
        (tmp_path / "shop-a-1.heartbeat").write_text(json.dumps(told))
        reader.read()
        return reader

    return beat


def test_a_restarted_container_is_another_process(beat: Beat) -> None:
    """Its process may have the id of the killed one: the purchases of both count, and what was in hand is known."""
    began = now_ns()
    beat(began - 2, began=1, sold=7).begin(began)
    beat(began + 1, began=1, sold=9, in_hand=3)
    beat(began + 2, began=2)
    reader = beat(began + 3, began=2, sold=1)
    assert dict(reader.outcomes) == {"sold": 3}
    assert [each.in_hand for each in reader.stale if each.began == 1] == [3]
    reader.begin(began + 4)
    assert beat(began + 5, began=2).stale == []


def test_only_the_purchases_of_a_run_are_counted(beat: Beat, tmp_path: Path) -> None:
    """Answers before the reset belong to the run before, also if they are read afterwards."""
    began = now_ns()
    beat(began - 2, sold=7, lock_timeout=4)
    reader = beat(began + 1, sold=8, lock_timeout=4)
    reader.begin(began)
    assert dict(reader.outcomes) == {"sold": 1}
    beat(began + 2, sold=9, lock_timeout=5)
    (tmp_path / "shop-a-1.heartbeat").unlink()
    for _ in range(2):
        assert dict(reader.outcomes) == {"sold": 2, "lock_timeout": 1}
        reader.read()
