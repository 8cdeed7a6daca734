"""Critical sections: read while they are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.board.sources import section_tail as module
from app.board.sources.section_tail import SectionTail
from app.sales.purchase import Outcome, Purchase, Receipt
from app.telemetry.section_log import SectionLog


def enter(order: str, at: int = 1) -> dict[str, Any]:
    """The line of a section that begins."""
    purchase = {"order": order, "buyer": "ada", "guard": "etcd", "token": 7}
    return {"at": at, "event": "enter", **purchase, "instance": "shop-a", "pid": 1, "thread": "t"}


def append(path: Path, *lines: str | dict[str, Any]) -> None:
    """Append whole lines."""
    with path.open("a") as file:
        file.writelines((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)


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
    append(path, line[20:], "{broken")
    assert [each.order for each in tail.poll()] == ["x"]
    append(path, "7", "[]", "{}", enter("y"))
    assert [each.order for each in tail.poll()] == ["y"]


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A board that begins late does not read for minutes what happened hours ago."""
    monkeypatch.setattr(module, "MOST_BYTES", 400)
    path = tmp_path / "shop-a-1.jsonl"
    append(path, *(enter(str(number)) for number in range(100)))
    tail = SectionTail(tmp_path)
    assert [each.order for each in tail.poll()] == ["98", "99"]
    append(path, enter("100"))
    assert [each.order for each in tail.poll()] == ["100"]


def test_nothing_is_read_where_nothing_is_recorded(tmp_path: Path) -> None:
    """No directory, or none yet, is no error."""
    assert SectionTail(None).poll() == []
    assert SectionTail(tmp_path / "later").poll() == []


def test_sections_of_dead_processes_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What never ends is not kept for ever: the end of one that began long ago is no news any more."""
    monkeypatch.setattr(module, "MOST_OPEN", 2)
    tail, path = SectionTail(tmp_path), tmp_path / "shop-a-1.jsonl"
    append(path, *(enter(order) for order in "abc"))
    assert len(tail.poll()) == 3
    leave = {"at": 2, "event": "leave", "read_at": 1, "commit_at": 1, "outcome": "sold", "cause": None}
    append(path, *({**leave, "order": order} for order in "abc"))
    assert [each.order for each in tail.poll()] == ["b", "c"]
