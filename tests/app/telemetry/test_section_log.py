"""What the section log keeps for slow motion: the lines of every guard, the points it passed, and what it read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from app.contract.section_log import GuardSource, LoggedSection, SectionTail
from app.guards import guards
from app.sales.sale import Sale
from tests.support.shops import WAYS, buy

REPOSITORY = Path(__file__).parents[3]
IN_ONE_SCRIPT = {"redis-lua", "etcd-batch", "etcd-sharded"}  # what they read does not leave Redis


def bought(make: Callable[..., Flask], log: Path, way: str) -> LoggedSection:
    """The section of one purchase."""
    assert buy(make(section_log=log), way)["outcome"] == "sold"
    return SectionTail(log).poll()[-1]


@pytest.mark.parametrize("guard", guards())
def test_every_guard_has_its_lines(make: Callable[..., Flask], sale: Sale, tmp_path: Path, guard: str) -> None:
    """The kept source is that of the file, each point is on one of its lines, and their times rise."""
    section = bought(make, tmp_path, guard)
    source = GuardSource.kept(tmp_path, guard)
    assert source is not None
    lines = source.text.splitlines()
    first = source.first_line - 1
    file = (REPOSITORY / source.file).read_text(encoding="utf-8").splitlines()
    assert [line.strip() for line in file[first : first + len(lines)]] == [line.strip() for line in lines]
    assert lines[0].startswith("def buy(self, purchase: Purchase)")
    names = ["write", "wrote", "left"] if guard in IN_ONE_SCRIPT else ["read", "think", "write", "wrote", "left"]
    assert [name for name, _, _ in section.points] == names
    seen = [section.line, *(line for _, line, _ in section.points)]
    assert all(line is not None and source.first_line <= line < source.first_line + len(lines) for line in seen)
    times = [after for _, _, after in section.points]
    assert times == sorted(times)
    assert section.stock_read == (None if guard in IN_ONE_SCRIPT else 10)


def test_the_lines_are_those_of_the_calls(make: Callable[..., Flask], sale: Sale, tmp_path: Path) -> None:
    """Under etcd: the with statement, the read, the think time, the write, and the with statement again."""
    section = bought(make, tmp_path, "etcd")
    source = GuardSource.kept(tmp_path, "etcd")
    assert source is not None
    texts = source.text.splitlines()
    at = {name: texts[line - source.first_line].strip() for name, line, _ in section.points}
    assert texts[(section.line or 0) - source.first_line].strip().startswith("with self.locked(")
    starts = {"read": "reading = stock.read(", "think": "section.think()", "write": "return stock.write("}
    assert {name: at[name].startswith(text) for name, text in starts.items()} == dict.fromkeys(starts, True)
    assert at["left"].startswith("with self.locked(")


def test_what_is_no_guard_has_no_lines(make: Callable[..., Flask], sale: Sale, tmp_path: Path) -> None:
    """What a lab sells by a route of its own is logged without lines; nothing else is missing."""
    for way in set(WAYS) - set(guards()):
        assert bought(make, tmp_path / way, way).line is None


def test_a_damaged_source_is_none(tmp_path: Path) -> None:
    """A file that is missing, broken or of another shape says nothing."""
    assert GuardSource.kept(None, "etcd") is None
    for content in ("{", "[]", json.dumps({"file": "x"}), '"text"'):
        (tmp_path / "etcd.source").write_text(content)
        assert GuardSource.kept(tmp_path, "etcd") is None
    odd: Any = "../my guard"
    GuardSource("f.py", 1, "def buy").keep(tmp_path, odd)
    assert GuardSource.kept(tmp_path, odd) == GuardSource("f.py", 1, "def buy")
