"""The commands that compare guards: `demo` with its own stack, `compare` with one that runs."""

from __future__ import annotations

import html
import json
import re
import signal
import urllib.request
from pathlib import Path

import pytest

from app.contract.verdict import Kind
from app.guards import guards
from loadtest.results.comparison import Comparison
from loadtest.stack.stack import Stack
from tests.loadtest.results.test_formats import validator
from tests.support.commands import finished, running
from tests.support.rushing import environment
from tests.support.waiting import has_ended, wait_until

pytestmark = pytest.mark.timeout(240)  # the patience of `finished` comes before

SMALL = ["--buyers=60", "--stock=20", "--guard=redis-lua"]


def test_demo_compares_and_reports(tmp_path: Path) -> None:
    """One command starts everything, adds the unlocked baseline, shows the comparison, keeps it, and exits with 0.

    What it keeps fits the schemas.
    """
    done, report = finished(tmp_path, "demo", *SMALL, "--hold-ms=2"), tmp_path / "reports/latest"
    assert done.returncode == 0, done.stdout + done.stderr
    comparison = Comparison.read(report / "comparison.json")
    assert (comparison.stock, comparison.buyers) == (20, 60)
    assert [(run.guard, run.kind) for run in comparison.runs] == [("none", Kind.OVERSOLD), ("redis-lua", Kind.EXACT)]
    assert {"python", "locust", "flask", "etcd"} <= comparison.versions.keys()
    lines = done.stdout.splitlines()
    assert re.match(r"Ready: etcd, redis, instance-\d+, instance-\d+$", lines[0])
    assert re.search(r"^ +60 buyers, 20 items, all clicks within \d+ ms +$", done.stdout, re.M)
    assert re.search(r"^none +\d+ .* OVERSOLD by \d+ +none +$", done.stdout, re.M)
    assert lines[-2] == comparison.sentence
    assert re.match(r"Report: reports/[\d_-]+/index.html$", lines[-1])
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
    page = (report / "index.html").read_text(encoding="utf-8")
    assert html.escape(comparison.sentence) in page
    assert page.count("<svg") == 6  # sold and inside for each of two guards, the waiting times, and the first race
    validator("comparison.json").validate(json.loads((report / "comparison.json").read_bytes()))
    records = [json.loads(path.read_bytes()) for path in sorted(report.glob("records/*.json"))]
    assert [record["guard"] for record in records] == ["none", "redis-lua"]
    for record in records:
        validator("record.json").validate(record)
        assert all(record[rows] for rows in ("answers", "ledger", "sections"))


@pytest.mark.slow
def test_a_demo_that_is_kept_says_where_to_look_and_ends_cleanly(tmp_path: Path) -> None:
    """Shops and board go on until SIGTERM; a demo without overselling says that it proves nothing and fails."""
    words = ["demo", "--keep", "--guard=redis-lua", "--buyers=3", "--stock=20"]
    with running(tmp_path, *words, until="Send the rush: ") as demo:
        demo.read_until("\n")
        said = dict(line.split(": ", 1) for line in demo.printed.splitlines() if ": " in line)
        for url in [f"{said['Board']}/livez", said["Locust"], *(f"{url}/livez" for url in said["Shops"].split())]:
            with urllib.request.urlopen(url, timeout=30) as answer:
                assert answer.status == 200
        children = demo.children()
        assert demo.end(signal.SIGTERM) == 1
        wait_until(lambda: all(map(has_ended, children)), timeout=30)
    assert (tmp_path / said["Report"]).exists()
    assert ".venv/bin/locust" in said["Send the rush"]
    assert "FLASHSALE_SECTION_LOG=" in said["Send the rush"]
    assert "proves nothing" in demo.printed


@pytest.mark.slow
def test_all_guards_of_the_shop_are_compared(stack: Stack, tmp_path: Path) -> None:
    """`--all` takes each, in the shop's order."""
    hosts = f"--hosts={','.join(stack.urls)}"
    done = finished(tmp_path, "compare", "--all", "--buyers=3", "--stock=2", hosts, env=environment(stack))
    comparison = Comparison.read(tmp_path / "reports/latest/comparison.json")
    assert ([run.guard for run in comparison.runs], done.returncode) == ([*guards()], 0), done.stdout + done.stderr
