"""The benchmark: its buyers, its arithmetic, its order of rounds, and the document that is written from it."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from loadtest.bench import clients as clients_module
from loadtest.bench.clients import Click, ClientPool, Unanswered
from loadtest.bench.document import performance
from loadtest.bench.limits import limits_grid
from loadtest.bench.result import BenchResult, Case, Count, Round, Row
from loadtest.bench.runner import Bench, total_verdict
from loadtest.bench.suite import PARTS, parts
from loadtest.bench.tables import COLUMNS, grids
from loadtest.cli.main import cli
from loadtest.results.answer import Answer, Outcome
from loadtest.results.comparison import GUARDS
from loadtest.stack.stack import Stack
from tests.support.waiting import wait_until

SOLD = b'{"outcome":"sold","order":"o","instance":"a","waited_ms":1,"held_ms":2}'


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that treats each request on each connection as told; its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    opened: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        try:
            while connection.recv(65536):
                answer(connection)
        except OSError:
            return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            opened.append(connection)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        for each in [listener, *opened]:
            each.close()


def http(body: bytes, *, head: str = "") -> bytes:
    """An answer as it goes over the wire."""
    return f"HTTP/1.1 200 OK\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body


def clicks(count: int) -> list[Click]:
    """One click of each buyer."""
    return [Click(str(number), "/stock/reduce") for number in range(count)]


def test_every_buyer_clicks_once_and_has_his_own_answer() -> None:
    """As many answers as buyers, each with the buyer's name, whatever pieces the answers come in."""

    def in_pieces(connection: socket.socket) -> None:
        for piece in (http(SOLD)[:20], http(SOLD)[20:60], http(SOLD)[60:]):
            connection.sendall(piece)

    with server(in_pieces) as url, ClientPool([url]) as clients:
        clients.connect(30)
        answers = clients.burst(clicks(30))
    assert Counter(answer.buyer for answer in answers) == Counter(map(str, range(30)))
    assert {(answer.outcome, answer.instance, answer.held_ms) for answer in answers} == {(Outcome.SOLD, "a", 2)}
    assert all(answer.received >= answer.sent for answer in answers)


def test_a_connection_that_breaks_is_an_answer_in_doubt() -> None:
    """Who gets no answer is not left out: nobody knows whether he bought."""
    answered = threading.Semaphore(10)  # the greetings

    def hang_up(connection: socket.socket) -> None:
        if answered.acquire(blocking=False):
            connection.sendall(http(b"{}"))
        else:
            connection.shutdown(socket.SHUT_RDWR)

    with server(hang_up) as url, ClientPool([url]) as clients:
        clients.connect(10)
        answers = clients.burst(clicks(10))
    assert {(answer.outcome, answer.in_doubt) for answer in answers} == {(Outcome.ERROR, True)}


def test_a_connection_that_closes_after_its_answer_is_not_a_second_answer() -> None:
    """A server hangs up on idle connections while others still wait: everybody is counted once, the last one too."""
    greeted, early, last = threading.Semaphore(10), threading.Semaphore(9), threading.Event()

    def last_one_late(connection: socket.socket) -> None:
        if greeted.acquire(blocking=False):
            connection.sendall(http(b"{}"))
        elif early.acquire(blocking=False):
            connection.sendall(http(SOLD))
            connection.shutdown(socket.SHUT_RDWR)
        else:
            last.wait(20)
            connection.sendall(http(SOLD))

    with server(last_one_late) as url, ClientPool([url]) as clients, ThreadPoolExecutor(1) as thread:
        clients.connect(10)
        burst = thread.submit(clients.burst, clicks(10))
        wait_until(lambda: sum(not connection.open for connection in clients._connections) == 9)
        last.set()
        answers = burst.result(20)
    assert Counter(answer.buyer for answer in answers) == Counter(map(str, range(10)))
    assert {answer.outcome for answer in answers} == {Outcome.SOLD}


def test_who_is_never_answered_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is an error after the patience, and not a hang."""
    monkeypatch.setattr(clients_module, "PATIENCE_S", 0.2)
    with (
        server(lambda connection: None) as url,
        ClientPool([url]) as clients,
        pytest.raises(Unanswered, match="3 buyers"),
    ):
        clients.connect(3)


def test_an_open_load_does_not_wait_for_answers() -> None:
    """All clicks are made at their time while none is answered; each is measured from when it was due."""
    release, waiting = threading.Event(), threading.Semaphore(0)

    def late(connection: socket.socket) -> None:
        waiting.release()
        release.wait(20)
        connection.sendall(http(SOLD))

    def open_the_gate() -> None:
        for _ in range(20):
            waiting.acquire()
        release.set()

    threading.Thread(target=open_the_gate, daemon=True).start()
    with server(late) as url, ClientPool([url]) as clients:
        answers = clients.stream(lambda number: Click(str(number), "/"), rate=200, seconds=0.1)
    assert len(answers) == 20
    sent = sorted(answer.sent for answer in answers)
    assert [round((at - sent[0]) * 200) for at in sent] == list(range(20))


def test_an_open_load_connects_anew_where_the_server_closes() -> None:
    """A connection that the server will not keep is not used again."""
    closing = http(SOLD, head="Connection: close\r\n")
    with server(lambda connection: connection.sendall(closing)) as url, ClientPool([url]) as clients:
        answers = clients.stream(lambda number: Click(str(number), "/"), rate=400, seconds=0.05)
    assert {answer.outcome for answer in answers} == {Outcome.SOLD}


def run(wall_s: float, verdict: str = "EXACT", *, clicks: int = 4) -> Round:
    """One round that took `wall_s`."""
    answers = [Answer(str(n), Outcome.SOLD, "a", sent=0.0, received=wall_s) for n in range(clicks)]
    return Round(wall_s, answers, verdict, Count({"instances": 0.004, "buyers": 0.001}, 8, 16, 4))


def result() -> BenchResult:
    """A result with some guards in every part."""
    made = BenchResult(
        "2026-01-01T00:00:00+00:00",
        {"python": "3.12"},
        bounds={"http": 4000.0, "commits": 1000.0, "trips": 9000.0, "locust_ms": 0.6},
        machine={"system": "Linux", "machine": "riscv64", "cpus": 2},
    )
    for part in PARTS:
        for guard, wall_s in (
            ("none", 0.2),
            ("redis-lua", 0.1),
            ("etcd-batch", 0.15),
            ("etcd", 0.8),
            ("etcd-unfenced", 1.2),
            ("etcd-cohort", 0.3),
            ("redis-lock", 1.5),
        ):
            for items in (1, 20) if part == "items" else (1,):
                made.rows.append(
                    Row.of(Case(part, guard, 4, 4, items=items), [run(wall_s * n / items) for n in (1, 2, 3)])
                )
    for row in made.rows:
        row.cpu_ms.update({"etcd": 0.0, "redis": 0.0})
    made.peak_mib["rush, 2 instances"] = {"instances": 50.0, "etcd": 40.0, "redis": 10.0}
    return made


def test_figures_are_per_click_and_times_are_medians() -> None:
    """CPU and calls are averaged over all clicks of all rounds; the wall time is the middle round."""
    row = Row.of(Case("rush", "etcd", 4, 4), [run(0.4), run(0.1), run(0.2, "OVERSOLD by 1")])
    assert (row.wall_s, row.per_s) == (0.2, 20.0)
    assert (row.cpu_ms["instances"], row.etcd_calls, row.etcd_events, row.redis_trips) == (1.0, 2.0, 4.0, 1.0)
    assert (row.verdicts, row.exact, row.served()) == ({"EXACT": 2, "OVERSOLD by 1": 1}, False, 1.0)
    assert row.purchase_ms.p50 == 200.0


def test_ratios_are_taken_within_one_setting() -> None:
    """A guard is compared with the baseline of the same part, instances, items and think time, or not at all."""
    made = result()
    rush = {row.case.guard: row for row in made.part("rush")}
    assert made.ratio(rush["etcd-batch"], "none") == pytest.approx(0.75)
    assert made.ratio(rush["etcd-batch"], "redis-lua") == pytest.approx(1.5)
    other = replace(rush["etcd"], case=replace(rush["etcd"].case, hold_ms=5))
    assert made.ratio(other, "none") is None


def test_a_result_can_be_kept(tmp_path: Path) -> None:
    """What is read is what was written; another JSON file is refused."""
    path = tmp_path / "kept" / "bench.json"
    result().write(path)
    assert BenchResult.read(path) == result()
    path.write_text("{}")
    with pytest.raises(ValueError, match="not stock-flash-sale/bench"):
        BenchResult.read(path)


def test_rounds_are_interleaved() -> None:
    """Every guard has its round before any has its next; the slow one of a long part has one that counts."""
    (rush,) = parts(["rush"], ["none", "etcd", "redis-lock"], 2)
    assert [(number, case.guard) for number, case in rush.schedule()] == [
        (number, guard) for number in (0, 1, 2) for guard in ("none", "etcd", "redis-lock")
    ]
    (clients,) = parts(["crowd"], ["none", "redis-lock"], 2)
    assert [(number, case.guard) for number, case in clients.schedule()] == [
        (0, "none"), (1, "none"), (1, "redis-lock"), (2, "none"),
    ]  # fmt: skip


def test_every_part_measures_every_guard_it_is_asked_for() -> None:
    """By default no guard is left out of a part, except where only locks of several items are compared."""
    for name in PARTS:
        guards = {case.guard for part in parts([name], GUARDS, None) for case in part.cases}
        assert guards == set(GUARDS) or name == "items"
    assert COLUMNS.keys() == PARTS.keys()


def test_the_document_has_every_part_bound_and_aim(tmp_path: Path) -> None:
    """docs/performance.md is written from the JSON file by one command."""
    result().write(tmp_path / "bench.json")
    output = tmp_path / "docs" / "performance.md"
    done = CliRunner().invoke(cli, ["performance", str(tmp_path / "bench.json"), "--output", str(output)])
    assert done.exit_code == 0, done.output
    text = output.read_text()
    assert text == performance(result())
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## In short",
        "## How it was measured",
        *(f"## {grid.name.capitalize()}" for grid in grids(result())),
        "## What bounds each guard",
        "## Aims",
        "## Peak memory, MiB",
    ]
    assert "- rush: `etcd-batch` at most 1 x `none`: 0.75 x, reached." in text
    assert "- rush: `etcd` at most 3 x `none`: 4.00 x, missed." in text
    assert "- crowd: `etcd-batch` at most 1.1 x `redis-lua`: 1.50 x, missed." in text
    assert "- rush: `redis-lock` at least 10 x as long as `etcd-cohort`: 5.0 x, missed. Whoever waits sleeps" in text
    assert "of 4 who wait somebody looks every 25.0 ms, so the lock is left free for about 0.2 s in all; for 1 " in text
    assert "20.0 x, reached. The CPUs allow 640.0 x: one item keeps them busy to 0 %, twenty to 3 %." in text
    for line in text.splitlines():
        assert not line.startswith("|") or line.endswith("|")


def test_one_round_has_no_spread() -> None:
    """A case that was measured once is not shown as one whose rounds were all alike."""
    made = result()
    made.rows.append(replace(made.part("crowd")[0], case=Case("crowd", "redis-lock", 4, 4), walls_s=[50.0]))
    (clients,) = (grid for grid in grids(made) if grid.name == "crowd")
    spread = clients.headings.index("min-max")
    assert {row[0]: row[spread] for row in clients.rows}["redis-lock"] == "one round"
    assert {row[0]: row[spread] for row in clients.rows}["none"] == "0.20-0.60"


def test_items_that_do_not_add_up_are_summed() -> None:
    """The verdict on many items is one, and what one item has too much does not make up for what another lacks."""
    good = {"initial": 100, "stock": 60, "orders": 40}
    assert total_verdict([good, good]) == "EXACT"
    assert total_verdict([good, {**good, "stock": 63}, {**good, "stock": 64}]) == "7 lost updates"
    assert total_verdict([{**good, "stock": 63}, {**good, "stock": 57}]) == "UNDERSOLD by 3, 3 lost updates"
    assert total_verdict([good, {**good, "orders": 102, "stock": 0}]) == "OVERSOLD by 2"


def test_the_document_begins_with_what_it_comes_to() -> None:
    """What each guard costs, what bounds the mutex, and what the short cut is worth: from the figures of the tables."""
    made = result()
    made.rows = [
        replace(row, etcd_calls=0.5) if (row.case.part, row.case.guard) == ("crowd", "etcd") else row
        for row in made.rows
    ]
    title, heading, costs, limit, short_cut = (
        performance(made).split("## ComparisonSource")[0].replace("\n\n", "\n").split("\n")[:5]
    )
    assert (title, heading) == ("# Performance", "## In short")
    fast = "`redis-lua` 0.50 (1.00), `etcd-batch` 0.75 (1.50), `none` 1.00 (2.00), `etcd-cohort` 1.50 (3.00)"
    slow = "`etcd` 4.00 (8.00), `etcd-unfenced` 6.00 (12.00), `redis-lock` 7.50 (15.00)"
    assert f"(and of `redis-lua`), {fast}, {slow}." in costs
    assert limit.startswith("- What bounds `etcd` is etcd itself: a click costs 1.25 ms of CPU time, 1.00 of them in")
    assert "which allows 1600 clicks/s, and etcd commits 1000 times/s one after the other" in limit
    assert short_cut.startswith("- Why `etcd-unfenced` takes 1.5 times as long as `etcd` when 4 come: ")
    assert short_cut.endswith(": 75 % of its buyers are answered without the lock.")
    made.bounds["commits"] = 2000.0
    assert "- What bounds `etcd` is the processor: " in performance(made)


def test_the_lowest_limit_is_what_a_guard_is_held_against() -> None:
    """The trips to Redis count only where a purchase needs two in turn, and a guard is bounded by what allows least."""
    made = result()
    rows = {row[0]: list(row[2:]) for row in made_limits(made)}
    assert rows["none"] == ["4000", "-", "1600", "the CPUs", "1 %"]
    assert rows["etcd"] == ["4000", "4500", "1600", "the CPUs", "0 %"]
    made.bounds |= {"trips": 20.0}
    rows = {row[0]: list(row[2:]) for row in made_limits(made)}
    assert rows["etcd"] == ["4000", "10", "1600", "two trips to Redis in turn", "25 %"]
    made.bounds |= {"http": 10.0}
    rows = {row[0]: list(row[2:]) for row in made_limits(made)}
    assert rows["none"] == ["10", "-", "1600", "HTTP alone", "100 %"]


def made_limits(made: BenchResult) -> Sequence[Sequence[str]]:
    """The rows of the table of limits."""
    grid = limits_grid(made)
    assert grid is not None
    return grid.rows


def test_results_of_several_runs_make_one_document(tmp_path: Path) -> None:
    """Parts that were measured one after the other are joined."""
    whole = result()
    for name in PARTS:
        replace(whole, rows=whole.part(name)).write(tmp_path / f"{name}.json")
    files = [str(tmp_path / f"{name}.json") for name in PARTS]
    output = tmp_path / "performance.md"
    assert CliRunner().invoke(cli, ["performance", *files, "--output", str(output)]).exit_code == 0
    assert output.read_text() == performance(whole)


@pytest.mark.parametrize("content", [json.dumps({"format": "something else"}), "# Not JSON", "[]", "{}", "\udcff"])
def test_a_document_of_something_else_is_refused(tmp_path: Path, content: str) -> None:
    """What is no result is one line that names the file, and no document is written."""
    other, output = tmp_path / "README.md", tmp_path / "performance.md"
    other.write_bytes(content.encode(errors="surrogateescape"))
    refused = CliRunner().invoke(cli, ["performance", str(other), "--output", str(output)])
    assert refused.exit_code == 1
    assert refused.output.startswith(f"Error: {other} is no result of make bench: ")
    assert refused.output.count("\n") == 1
    assert not output.exists()


@pytest.mark.parametrize("command", [["faults", "random"], ["bench-lock"]])
@pytest.mark.parametrize("seconds", ["-1", "0", "nan", "inf", "1e9", "soon"])
def test_no_time_and_all_the_time_are_refused(command: list[str], seconds: str) -> None:
    """What goes on for some seconds has to begin and to end."""
    refused = CliRunner().invoke(cli, [*command, "--seconds", seconds])
    assert refused.exit_code == 2
    assert "Invalid value for '--seconds': " in refused.output


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A small stack to measure."""
    env = {"FLASHSALE_ITEMS": "3", "FLASHSALE_SECTION_LOG": "", "FLASHSALE_THREADS": "16"}
    with Stack(tmp_path_factory.mktemp("bench"), ports="free", env=env) as stack:
        yield Bench.on(stack)


@pytest.mark.parametrize("guard", ["etcd", "etcd-cohort", "etcd-batch", "redis-lua"])
def test_a_run_counts_what_it_costs(bench: Bench, guard: str) -> None:
    """A burst on a real stack: judged by the ledger, with the servers' own counts of calls."""
    bench.run(Case("rush", guard, 40, 30))
    done = bench.run(Case("rush", guard, 40, 30))
    assert done.verdict == "EXACT"
    assert Counter(answer.outcome.value for answer in done.answers) == {"sold": 30, "sold_out": 10}
    assert done.count.cpu_s.keys() == {"instances", "etcd", "redis", "buyers"}
    assert done.count.redis_trips > 0
    assert done.count.etcd_calls >= 30 or guard != "etcd", "who has held has written a key of its own"
    assert (done.count.etcd_calls < 2) is (guard == "redis-lua")


def test_a_run_over_several_items_is_judged_for_each(bench: Bench) -> None:
    """The buyers take the items in turn, and every item has to add up."""
    done = bench.run(Case("items", "etcd-batch", 30, 30, items=3))
    assert (done.verdict, len(done.answers)) == ("EXACT", 30)


def test_an_open_load_on_a_real_stack_is_served(bench: Bench) -> None:
    """Clicks at a steady rate are all sold."""
    done = bench.run(Case("open", "etcd-batch", 40, 100, rate=200.0))
    assert (done.verdict, Counter(answer.outcome.value for answer in done.answers)) == ("EXACT", {"sold": 40})


def test_memory_is_read_from_every_process(bench: Bench) -> None:
    """An instance with Python in it has had more than 20 MiB at its peak."""
    peaks = bench.meter.peak_mib()
    assert peaks["instances"] > 20
    assert min(peaks.values()) > 1
