"""What a process tells: to Prometheus, and of each critical section for slow motion."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families

from app.contract.outcomes import ANSWERS
from app.contract.section_log import GuardSource, LoggedSection, SectionTail
from app.guards import guards
from app.sales.purchase import Purchase
from app.sales.sale import Sale
from app.telemetry import section_log
from app.telemetry.mapped_file import CHUNK
from app.telemetry.section_log import SectionLog
from tests.loadtest.results.test_record import validator
from tests.support.shops import WAYS, buy

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


# What Prometheus sees of one process.


def samples(browser: FlaskClient) -> dict[tuple[str, ...], float]:
    answer = browser.get("/metrics")
    assert answer.content_type.startswith("text/plain; version=")  # Prometheus 3 reads nothing else
    families = text_string_to_metric_families(answer.text)
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_purchases_are_counted_by_guard_and_outcome(browser: FlaskClient) -> None:
    """Each purchase is counted once, with its times; an answer given again is a replay, and not a sale.

    Every guard and outcome is there from the start: a rate over a counter that appears late would miss its first step.
    Strangers and buyers make no labels.
    """
    before = samples(browser)
    purchases = {key[1:]: value for key, value in before.items() if key[0] == "flashsale_purchases_total"}
    assert purchases == {(way, outcome.value): 0 for way in WAYS for outcome in ANSWERS}
    assert not [name for name, *_ in before if name.endswith("_created")]  # which would double them all
    browser.post("/stock/reduce?guard=nope&buyer=mallory")
    browser.post("/stock/reduce?guard=none&hold_ms=20&buyer=mallory")
    for _ in range(2):
        browser.post("/stock/reduce?guard=redis-lua", headers={"Idempotency-Key": "k"})
    browser.post("/stock/reset", json={"stock": 0})
    browser.post("/stock/reduce?guard=etcd")
    found = samples(browser)
    assert found.keys() == before.keys()
    assert found["flashsale_purchases_total", "redis-lua", "sold"] == 1
    assert found["flashsale_purchases_total", "etcd", "sold_out"] == 1
    assert found["flashsale_replays_total", "redis-lua"] == 1
    assert found["flashsale_waited_seconds_count", "redis-lua"] == 2
    assert found["flashsale_held_seconds_count", "etcd"] == 1
    assert 0.02 <= found["flashsale_held_seconds_sum", "none"] < 20
    assert found["flashsale_instance", "shop-a"] == 1


def test_the_dashboard_asks_for_what_there_is(browser: FlaskClient) -> None:
    """Each query of deploy/grafana.json names series, and labels of theirs, that /metrics has."""
    exposed: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(flashsale_\w+)(?:\{(.*)\})? ", browser.get("/metrics").text, re.MULTILINE):
        exposed.setdefault(name, {"instance"}).update(re.findall(r'(\w+)="', labels))
    dashboard = json.loads((Path(__file__).parents[3] / "deploy/grafana.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for query in [*queries, dashboard["templating"]["list"][1]["query"]["query"]]:
        (name,) = re.findall(r"flashsale_\w+", query)
        labels = {label for names in re.findall(r"by \(([^)]*)\)", query) for label in names.split(", ")}
        assert name in exposed
        assert labels | {*re.findall(r"(\w+)=~", query)} <= exposed[name], query
