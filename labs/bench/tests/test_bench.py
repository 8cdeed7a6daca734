"""The benchmarks: of guards, with their pages, on a real stack; and of locks, with Go's Mutex if it can be compiled."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.contract.outcomes import Outcome
from labs.bench import commands, meters
from labs.bench.clients import Click, ClientPool
from labs.bench.commands import DOCUMENTS
from labs.bench.locks import bench as lock_bench
from labs.bench.locks.bench import PYTHON
from labs.bench.meters import measure_handover_ms
from labs.bench.result import BenchResult, Case, MeasuredRush, Row
from labs.bench.runner import Bench
from labs.bench.suite import PARTS
from loadtest.cli.main import cli
from loadtest.results.answer import Answer
from loadtest.stack.servers import Etcd
from loadtest.stack.stack import Stack
from lock import connect
from tests.support.commands import leaving_nothing
from tests.support.serving import serving

GUARDS = {"none": 0.2, "redis-lua": 0.1, "etcd-batch": 0.15, "etcd": 0.8}


def rush_of(wall_s: float) -> MeasuredRush:
    """One round of four clicks that took `wall_s`; two clicks share a token."""
    answers = [
        Answer(str(n), Outcome.SOLD, "a", answered_ms=wall_s * 1000, held_ms=2.0 + n % 2, token=[7, n // 2])
        for n in range(4)
    ]
    cpu_s = {"instances": 0.016, "etcd": 0.002, "redis": 0.001, "buyers": 0.001}
    used = {**cpu_s, "etcd_calls": 8, "redis_trips": 4, "etcd_puts": 2, "others_cpus": 1.0}
    return MeasuredRush(wall_s, answers, "EXACT", used)


def benchmark() -> BenchResult:
    """Some guards in every part, never measured."""
    machine = {"system": "Linux", "machine": "riscv64", "cpus": 2}
    made = BenchResult("2026-01-01T00:00:00+00:00", {"python": "3.12"}, machine=machine, handover_ms=1.5)
    for part in PARTS:
        for guard, wall_s in GUARDS.items():
            case = Case(part, guard, 4, 4, pinned=True)
            made.rows.append(Row.of(case, [rush_of(wall_s * n) for n in (1, 2, 3)]))
    return made


ROWS = """
| etcd | one CPU | 1.600 | 0.80-2.40 | 4.00 | 2.00 | 1.00 | 4.00 | 0.50 | 0.25 | EXACT |
| etcd | one CPU | 2 | - | - | 1600 | 2400 | 2.00 | 1.00 | 4.00 | 0.50 | 0.25 |
| etcd | 4.00 | 0.250 | 0.250 | 2.250 | the lock | 2 | 4,400 | 250 | 440 | 440 | 440 | 440 | 440 |
"""


def test_a_result_fills_the_pages_and_is_shown_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tables stand in them, and their text stays; where a part was not measured, no page is changed.

    Times are medians of rounds, the rest is per click; ceilings are those of the demands: the lock is held in two
    sections of 3 ms for four clicks, and handed over twice, in 1.5 ms.
    """
    monkeypatch.setattr(commands, "_NARROWEST", 300)
    copies = [tmp_path / document.name for document in DOCUMENTS]
    before = [document.read_text(encoding="utf-8") for document in DOCUMENTS]
    for copy, text in zip(copies, before, strict=True):
        copy.write_text(text, encoding="utf-8")
    monkeypatch.setattr(commands, "DOCUMENTS", copies)
    file = tmp_path / "bench.json"
    replace(benchmark(), rows=benchmark().part("click")).write(file)
    refused = CliRunner().invoke(commands.write_performance, [str(file)])
    assert "the document shows rush, which was not measured" in refused.output
    assert [copy.read_text(encoding="utf-8") for copy in copies] == before
    benchmark().write(file)
    assert CliRunner().invoke(commands.write_performance, [str(file)]).exit_code == 0
    after = [copy.read_text(encoding="utf-8") for copy in copies]
    around, around_before = (
        re.split(r"<!-- bench:.*?/bench -->", "".join(each), flags=re.DOTALL) for each in (after, before)
    )
    assert around == around_before
    shown = CliRunner().invoke(commands.bench, ["--show", str(file)]).output
    for row in ROWS.strip().splitlines():
        assert f"\n{row}\n" in "".join(after)
        assert re.search(r"[\s│]+".join(map(re.escape, row.strip("| ").split(" | "))), shown), row


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A small stack to measure."""
    env = {"FLASHSALE_SECTION_LOG": "", "FLASHSALE_THREADS": "16"}
    with Stack(tmp_path_factory.mktemp("bench"), ports="free", env=env) as stack, Bench(stack) as bench:
        yield bench


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        *(Case("rush", guard, 40, 30) for guard in ("etcd", "redis-lua", "etcd-cohort", "etcd-batch")),
        Case("open", "etcd-batch", 40, 100, rate=200.0),
    ],
    ids=lambda case: f"{case.part} {case.guard}",
)
def test_a_run_counts_what_it_costs(bench: Bench, case: Case) -> None:
    """On a real stack: judged by the ledger, with the servers' own counts of calls and CPU time."""
    bench.run(case)
    done = bench.run(case)
    sold = min(case.buyers, case.stock)
    assert done.verdict == "EXACT"
    assert Counter(answer.outcome.value for answer in done.answers) == Counter(sold=sold, sold_out=case.buyers - sold)
    used = done.used
    assert used["etcd"] >= 0
    assert used["buyers"] > 0
    assert 0 < used["redis"] < used["instances"]
    assert 0 < used["redis_trips"] <= (41 if case.guard == "redis-lua" else 400), "all know of the reset"
    assert used["etcd_calls"] >= 30 or case.guard != "etcd", "each holder has written its own key"
    assert (used["etcd_puts"] == 0) is (case.guard == "redis-lua")
    expected = {"etcd": 30, "etcd-cohort": 30, "redis-lua": 0}
    assert len(done.locked_ms()) >= expected.get(case.guard, 1), "each section under the lock has its time"


def test_the_time_of_a_hand_over_is_measured(etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sessions pass the mutex to and fro; no waiter is left in its queue."""
    monkeypatch.setattr(meters, "_HANDOVERS_S", 0.2)
    assert 0 < measure_handover_ms(etcd) < 1000
    with connect(etcd.endpoint) as client:
        assert client.get_prefix("bench/handover/").keys == []


# Buyers: each clicks once and has an answer, however the server behaves

SOLD = b'{"outcome":"sold","order":"o","instance":"a","waited_ms":1,"held_ms":2}'


def test_an_open_load_does_not_wait_for_answers() -> None:
    """All clicks are made at their time while none is answered; each is measured from when it was due."""
    all_here = threading.Barrier(20)

    def late(connection: socket.socket, _: bytes) -> None:
        all_here.wait(20)
        connection.sendall(f"HTTP/1.1 200 OK\r\ncontent-length: {len(SOLD)}\r\n\r\n".encode() + SOLD)

    with serving(late) as server, ClientPool([f"http://{server.endpoint}"]) as clients:
        answers = clients.stream([Click(str(number), "/stock/reduce") for number in range(20)], rate=200)
    assert len(answers) == 20
    sent = sorted(answer.sent_ms for answer in answers)
    assert [round((at - sent[0]) / 5) for at in sent] == list(range(20))


# The benchmark of the locks: bursts; Go's Mutex, skipped with a word if it cannot be compiled.


@pytest.mark.slow
def test_without_a_toolchain_it_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says so, and why; the other locks are measured."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(lock_bench, "repeat", lambda step, seconds: meters.repeat(step, 0.1))
    locks = [f"--candidate={lock}" for lock in ("go", "strict", "go-sessions", "election")]
    few = ["--waiters=2", "--sessions=4", "--seconds=0.1"]
    done = CliRunner().invoke(cli, ["bench-lock", *locks, *few])
    assert done.exit_code == 0, done.output
    skipped = "go, go-sessions: skipped, for there is no Go toolchain on PATH (apt install golang-go "
    assert done.output.count(skipped) == 1
    assert re.findall(r"\u2502 (\S+) +\u2502 +\d+ +\u2502", done.output) == ["strict", "election"]


@pytest.mark.parametrize("candidate", ["burst", "two tickets each"])
def test_in_a_burst_each_waiter_takes_one_turn(etcd: Etcd, candidate: str) -> None:
    """All turns are counted, however short the time that other locks are given."""
    worker = [*PYTHON, candidate, etcd.endpoint, "", "bench/burst", "6", "0.001"]
    done = subprocess.run(worker, input="count\n", capture_output=True, text=True, timeout=60, check=True)
    queued, counted = done.stdout.splitlines()
    assert (queued, json.loads(counted)["turns"]) == ("queued", 6)


@pytest.mark.timeout(240)
def test_a_killed_benchmark_leaves_nothing(tmp_path: Path) -> None:
    """After kill -9 no server, no worker, no directory and no report is left."""
    words = ["bench-lock", "--waiters=2", "--candidate=cohort", "--seconds=1"]
    with leaving_nothing(tmp_path, *words, until="cohort") as ended:
        ended.end(signal.SIGKILL)
    assert not (tmp_path / "reports").exists()
