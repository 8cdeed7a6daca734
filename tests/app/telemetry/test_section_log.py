"""What the section log keeps for slow motion: the lines of every guard, the points it passed, and what it read."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from app.contract.section_log import GuardSource, LoggedSection, SectionTail
from app.guards import guards
from app.sales.purchase import Purchase
from app.sales.sale import Sale
from app.telemetry import section_log
from app.telemetry.mapped_file import CHUNK
from app.telemetry.section_log import SectionLog
from tests.loadtest.results.test_formats import validator
from tests.support.shops import buy

REPOSITORY = Path(__file__).parents[3]
IN_ONE_SCRIPT = {"redis-lua", "etcd-batch"}  # what they read does not leave Redis


@pytest.mark.parametrize("guard", guards())
def test_every_guard_has_its_lines(make: Callable[..., Flask], sale: Sale, tmp_path: Path, guard: str) -> None:
    """The kept source is that of the file, each point is on one of its lines, and their times rise.

    The lines of the log fit their schema.
    """
    assert buy(make(section_log=tmp_path), guard)["outcome"] == "sold"
    (section,) = SectionTail(tmp_path).poll()
    logged = [json.loads(line) for line in text_of(tmp_path).splitlines()]
    assert [line["event"] for line in logged] == ["enter", "leave"]
    for line in logged:
        validator("section-log.json").validate(line)
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


# The file


def use(log: SectionLog, count: int) -> None:
    for _ in range(count):
        with Purchase("ada", "none", listener=log).critical_section():
            pass


def text_of(directory: Path) -> bytes:
    """The text of the only log, without the zeros behind it."""
    (file,) = directory.glob("*.jsonl")
    return file.read_bytes().partition(b"\0")[0]


def test_a_full_file_says_so(tmp_path: Path) -> None:
    """What does not fit any more is left out, visibly, and the sale goes on."""
    use(SectionLog(tmp_path, instance="a", largest=1500), 20)
    *lines, last = text_of(tmp_path).splitlines()
    assert 2 < len(lines) < 12
    assert last == b'{"event":"full"}'
    assert len(text_of(tmp_path)) <= 1500 + 20


def test_lines_go_on_in_the_next_chunk(tmp_path: Path) -> None:
    """Every section is read whole and once, across chunks, while they are written."""
    log, tail = SectionLog(tmp_path, instance="a"), SectionTail(tmp_path)
    sections: list[LoggedSection] = []
    while len(text_of(tmp_path) if sections else b"") < 3 * CHUNK:
        use(log, 200)
        sections += tail.poll()
    assert [section.number for section in sections] == list(range(1, len(sections) + 1))
    assert all(section.left for section in sections)
    assert len(sections) % 200 == 0


def test_a_full_disk_leaves_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without room the sale goes on and the log says so once; with room again, a line counts what is missing."""
    monkeypatch.setattr(section_log, "RETRY_S", 0.0)
    log, limits = SectionLog(tmp_path, instance="a"), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (CHUNK // 2, limits[1]))
    try:
        use(log, 3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    use(log, 1)
    assert [json.loads(line)["event"] for line in text_of(tmp_path).splitlines()] == ["gap", "enter", "leave"]
    assert text_of(tmp_path).startswith(b'{"event":"gap","lines":6}')
    assert [record.message[:29] for record in caplog.records] == ["the section log has a gap fro"]


KILLED_INSIDE = """
import os, signal, sys
from pathlib import Path
from app.sales.purchase import Purchase
from app.telemetry.section_log import SectionLog
with Purchase("ada", "none", listener=SectionLog(Path(sys.argv[1]), instance="a")).critical_section():
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_purchase_has_its_first_line(tmp_path: Path) -> None:
    """After kill -9 inside the section its `enter` line is there, and the section is open."""
    killed = subprocess.run([sys.executable, "-c", KILLED_INSIDE, str(tmp_path)], cwd=REPOSITORY, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    (section,) = SectionTail(tmp_path).poll()
    assert (section.buyer, section.left) == ("ada", None)


def test_a_file_of_an_earlier_process_goes_on(tmp_path: Path) -> None:
    """A process with the name and number of a dead one, as in containers, appends; half a line of it is passed over."""
    log = tmp_path / f"a-{os.getpid()}.jsonl"
    use(SectionLog(tmp_path, instance="a"), 1)
    whole = text_of(tmp_path)
    log.write_bytes((whole + whole[:40]).ljust(CHUNK, b"\0"))
    use(SectionLog(tmp_path, instance="a"), 1)
    assert len(SectionTail(tmp_path).poll()) == 2
