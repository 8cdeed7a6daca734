"""Critical sections: read while they are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.board.live.runs import Run
from app.board.sources import section_tail as module
from app.board.sources.ledger import Ended, Order
from app.board.sources.section_tail import Section, SectionTail
from app.sales.purchase import Outcome, Purchase, Receipt
from app.sales.sale import Snapshot
from app.telemetry.section_log import SectionLog


def section(number: int, entered: int, left: int | None) -> Section:
    """A section with these times; nothing else of it matters."""
    return Section(number, str(number), "ada", "none", None, "shop-a", 1, "t", entered, left)


def enter(order: str, at: int = 1) -> dict[str, Any]:
    """The line of a section that begins."""
    return {
        "at": at,
        "event": "enter",
        "order": order,
        "buyer": "ada",
        "guard": "etcd",
        "token": 7,
        "instance": "shop-a",
        "pid": 1,
        "thread": "t",
    }


def write(path: Path, *lines: dict[str, Any]) -> None:
    """Append whole lines."""
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def test_what_an_instance_records_is_read(tmp_path: Path) -> None:
    """A section is seen when it begins, open, and again when it is over, with its outcome."""
    tail, section_log = SectionTail(tmp_path), SectionLog(tmp_path, instance="shop-a")
    purchase = Purchase(buyer="ada", guard="etcd", listener=section_log)
    with purchase.critical_section(token=7):
        (begun,) = tail.poll()
        assert (begun.buyer, begun.token, begun.instance, begun.left) == ("ada", 7, "shop-a", None)
        purchase.decided = Receipt(Outcome.SOLD, "etcd")
    (ended,) = tail.poll()
    section_log.close()
    assert ended.number == begun.number
    assert ended.left is not None
    assert ended.left >= ended.entered
    assert ended.outcome == "sold"
    assert tail.poll() == []


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    """What is just being written is read when it is whole, and garbage does no harm."""
    tail, path = SectionTail(tmp_path), tmp_path / "shop-a-1.jsonl"
    line = json.dumps(enter("x"))
    path.write_text(line[:20])
    assert tail.poll() == []
    with path.open("a") as file:
        file.write(line[20:] + "\n{broken\n")
    assert [each.order for each in tail.poll()] == ["x"]
    write(path, enter("y"))
    assert [each.order for each in tail.poll()] == ["y"]


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A board that begins late does not read for minutes what happened hours ago."""
    monkeypatch.setattr(module, "MOST_BYTES", 400)
    path = tmp_path / "shop-a-1.jsonl"
    write(path, *(enter(str(number)) for number in range(100)))
    tail = SectionTail(tmp_path)
    assert [each.order for each in tail.poll()] == ["98", "99"]
    write(path, enter("100"))
    assert [each.order for each in tail.poll()] == ["100"]


def test_nothing_is_read_where_nothing_is_recorded(tmp_path: Path) -> None:
    """No directory, or none yet, is no error."""
    assert SectionTail(None).poll() == []
    assert SectionTail(tmp_path / "later").poll() == []


def order(guard: str, at_ms: int = 0) -> Order:
    """An entry of the ledger."""
    return Order("x", "ada", "shop-a", guard, None, at_ms)


def run_of(began_s: float = 1000.0) -> Run:
    """A run that began then, with ten items."""
    return Run(str(int(began_s * 1e6)), Snapshot(initial=10, stock=10, lucky=0, orders=0))


def test_a_run_has_the_guard_of_its_orders() -> None:
    """One guard is named; several are mixed; none was used where nothing was sold."""
    run = run_of()
    assert run.guard is None
    run.add_orders([order("etcd")])
    assert run.guard == "etcd"
    run.add_orders([order("none")])
    assert run.guard == "mixed"


def test_sections_belong_to_the_run_in_which_they_began() -> None:
    """When the next run turns out to have begun, its first sections are handed to it."""
    run = run_of()
    early, own, late = (section(n, run.began_ns + at, None) for n, at in ((1, -1), (2, 5), (3, 50)))
    assert run.add_sections([early, own, late]) == [own, late]
    ended = Ended(Snapshot(initial=10, stock=9, lucky=1, orders=1), [order("etcd")])
    assert run.end(run.began_ns + 20, ended) == [late]
    assert list(run.sections.values()) == [own]
    assert (run.summary()["orders"], run.summary()["guard"]) == (1, "etcd")


def test_a_sample_is_kept_when_it_is_news() -> None:
    """The course of a run has a point for each change, not for each look."""
    run = run_of()
    run.add_sample("shop-a", 3, known=True)
    run.add_sample("shop-a", 3, known=True)
    run.add_sample("shop-a", 2, known=False)
    assert [(sample.stock, sample.waiters) for sample in run.samples] == [(10, 3), (None, 2)]


def test_a_run_is_cut_visibly(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is more than can be kept is dropped, and the run says so."""
    monkeypatch.setattr("app.board.live.runs.MOST_ROWS", 2)
    run = run_of()
    run.add_sections([section(number, run.began_ns + number, None) for number in range(2)])
    assert not run.cut
    run.add_sections([section(9, run.began_ns, None)])
    assert run.cut
    assert len(run.sections) == 2
