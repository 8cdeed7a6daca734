"""The benchmark: its buyers, its arithmetic, its order of rounds, and the tables of the document."""

from __future__ import annotations

import gc
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from click.testing import CliRunner
from click.testing import Result as ClickResult
from rich.console import Console

from labs.bench import clients as clients_module
from labs.bench import costs as costs_module
from labs.bench import meters as meters_module
from labs.bench import runner as runner_module
from labs.bench.clients import Click, ClientPool, Connection, Unanswered, crowd_burst
from labs.bench.costs import SETTINGS, measure_costs
from labs.bench.result import BenchResult, Case, Count, MeasuredRush, Row
from labs.bench.runner import Bench, total_verdict
from labs.bench.suite import PARTS, Part, parts
from labs.bench.tables import COLUMNS, bounds, filled, grids, limits, memory
from loadtest.cli import bench as command
from loadtest.cli.main import cli
from loadtest.results.answer import Answer, Outcome
from loadtest.results.comparison import GUARDS
from loadtest.results.folders import LATEST, REPORTS, new_report, point_latest
from loadtest.stack.stack import Stack
from lock.etcd.stream import Watch
from lock.model import Event
from tests.support.serving import serving
from tests.support.waiting import wait_until

T = TypeVar("T")
SOLD = b'{"outcome":"sold","order":"o","instance":"a","waited_ms":1,"held_ms":2}'


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """The URL of a server that answers each request as told."""
    with serving(lambda connection, _: answer(connection)) as tcp:
        yield f"http://{tcp.endpoint}"


def http(body: bytes, *, head: str = "") -> bytes:
    """An answer as it goes over the wire."""
    return f"HTTP/1.1 200 OK\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body


def clicks(count: int) -> list[Click]:
    """One click of each buyer."""
    return [Click(str(number), "/stock/reduce") for number in range(count)]


def sell(connection: socket.socket) -> None:
    connection.sendall(http(SOLD))


def greeting(buyers: int, then: Callable[[socket.socket], None]) -> Callable[[socket.socket], None]:
    """Answers the greetings of so many buyers, and does `then` with their clicks."""
    greeted = threading.Semaphore(buyers)

    def answer(connection: socket.socket) -> None:
        if greeted.acquire(blocking=False):
            connection.sendall(http(b"{}"))
        else:
            then(connection)

    return answer


def test_a_crowd_clicks_from_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """All have connected, in whichever process, before the first of them clicks; and each has an answer."""
    monkeypatch.setattr(clients_module, "CROWD", 4)
    with server(greeting(10, sell)) as url:
        answers, cpu_s = crowd_burst([url], clicks(10))
    assert Counter(answer.buyer for answer in answers) == Counter(map(str, range(10)))
    assert {answer.outcome for answer in answers} == {Outcome.SOLD}
    assert cpu_s > 0


def hang_up(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("respond", "told"), [(sell, (Outcome.SOLD, 2, False)), (hang_up, (Outcome.ERROR, None, True))]
)
def test_every_buyer_clicks_once_and_has_an_answer(
    respond: Callable[[socket.socket], None], told: tuple[Outcome, int | None, bool]
) -> None:
    """As many answers as buyers, and each purchase whose connection breaks is in doubt."""
    with server(greeting(10, respond)) as url, ClientPool([url]) as clients:
        clients.connect(10)
        answers = clients.burst(clicks(10))
    assert Counter(answer.buyer for answer in answers) == Counter(map(str, range(10)))
    assert {(answer.outcome, answer.held_ms, answer.in_doubt) for answer in answers} == {told}
    assert all(answer.answered_ms >= answer.sent_ms for answer in answers)


def test_an_answer_may_come_in_pieces() -> None:
    """The wait ends with the last byte of the body, and not with the head."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ends = []
    with ours, theirs:
        connection = Connection("http://shop", "shop", ours)
        connection.send(b"click", "buyer", at=0.0)
        for piece in (http(SOLD)[:20], http(SOLD)[20:60], http(SOLD)[60:]):
            theirs.sendall(piece)
            ends.append(connection.read())
    assert ends == [False, False, True]
    assert connection.answer(1.0).held_ms == 2


def test_a_connection_that_closes_after_its_answer_is_not_a_second_answer() -> None:
    """A server hangs up on idle connections while others still wait: each buyer is counted once, the last one too."""
    early, last = threading.Semaphore(9), threading.Event()

    def last_one_late(connection: socket.socket) -> None:
        if early.acquire(blocking=False):
            connection.sendall(http(SOLD))
            connection.shutdown(socket.SHUT_RDWR)
        else:
            last.wait(20)
            connection.sendall(http(SOLD))

    with (
        server(greeting(10, last_one_late)) as url,
        ClientPool([url]) as clients,
        ThreadPoolExecutor(1) as thread,
    ):
        clients.connect(10)
        burst = thread.submit(clients.burst, clicks(10))
        wait_until(lambda: sum(not connection.open for connection in clients._connections) == 9)
        last.set()
        answers = burst.result(20)
    assert Counter(answer.buyer for answer in answers) == Counter(map(str, range(10)))
    assert {answer.outcome for answer in answers} == {Outcome.SOLD}


def test_silence_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
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
    all_here = threading.Barrier(20)

    def late(connection: socket.socket) -> None:
        all_here.wait(20)
        connection.sendall(http(SOLD))

    with server(late) as url, ClientPool([url]) as clients:
        answers = clients.stream(clicks(20), rate=200)
    assert len(answers) == 20
    sent = sorted(answer.sent_ms for answer in answers)
    assert [round((at - sent[0]) / 5) for at in sent] == list(range(20))


def test_an_open_load_connects_anew_where_the_server_closes() -> None:
    """A connection that the server will not keep is not used again."""
    closing = http(SOLD, head="Connection: close\r\n")
    with server(lambda connection: connection.sendall(closing)) as url, ClientPool([url]) as clients:
        answers = clients.stream(clicks(20), rate=400)
    assert {answer.outcome for answer in answers} == {Outcome.SOLD}


def run(wall_s: float, verdict: str = "EXACT", *, clicks: int = 4) -> MeasuredRush:
    """One round that took `wall_s`."""
    answers = [Answer(str(n), Outcome.SOLD, "a", answered_ms=wall_s * 1000) for n in range(clicks)]
    return MeasuredRush(wall_s, answers, verdict, Count({"instances": 0.004, "buyers": 0.001}, 8, 16, [3, 1], 2))


def result() -> BenchResult:
    """A result with some guards in every part."""
    made = BenchResult(
        "2026-01-01T00:00:00+00:00",
        {"python": "3.12"},
        bounds={"http": 4000.0, "commits": 1000.0, "trips": 9000.0},
        machine={"system": "Linux", "machine": "riscv64", "cpus": 2},
    )
    for part in PARTS:
        for guard, wall_s in (("none", 0.2), ("redis-lua", 0.1), ("etcd-batch", 0.15), ("etcd", 0.8)):
            made.rows.append(Row.of(Case(part, guard, 4, 4), [run(wall_s * n) for n in (1, 2, 3)]))
    for row in made.rows:
        row.cpu_ms.update({"etcd": 0.0, "redis": 0.0})
    made.peak_mib["rush, 2 instances"] = {"instances": 50.0, "etcd": 40.0, "redis": 10.0}
    return made


def test_figures_are_per_click_and_times_are_medians() -> None:
    """CPU and calls are averaged over all clicks of all rounds; the wall time is the middle round."""
    row = Row.of(Case("rush", "etcd", 4, 4), [run(0.4), run(0.1), run(0.2, "OVERSOLD by 1")])
    assert (row.wall_s, row.per_s) == (0.2, 20.0)
    assert (row.cpu_ms["instances"], row.etcd_calls, row.etcd_events) == (1.0, 2.0, 4.0)
    assert (row.redis_trips, row.node_trips) == (1.0, 0.75), "of both nodes, and of the busier one"
    assert row.etcd_puts == 0.5
    assert (row.verdicts, row.share("sold"), row.share("busy")) == ({"EXACT": 2, "OVERSOLD by 1": 1}, 1.0, 0.0)
    assert row.purchase_ms.p50 == 200.0


def test_ratios_are_taken_within_one_setting() -> None:
    """A guard is compared with the baseline of the same part, instances and sizes, or not at all."""
    made = result()
    rush = {row.case.guard: row for row in made.part("rush")}
    assert made.ratio(rush["etcd-batch"], "none") == pytest.approx(0.75)
    assert made.ratio(rush["etcd-batch"], "redis-lua") == pytest.approx(1.5)
    other = replace(rush["etcd"], case=replace(rush["etcd"].case, instances=4))
    assert made.ratio(other, "none") is None


def test_rounds_are_interleaved() -> None:
    """Every guard has its round before any has its next."""
    (rush,) = parts(["rush"], ["none", "etcd", "redis-lock"], 2)
    assert [(number, case.guard) for number, case in rush.schedule()] == [
        (number, guard) for number in (0, 1, 2) for guard in ("none", "etcd", "redis-lock")
    ]


def test_every_part_measures_every_guard_it_is_asked_for() -> None:
    """By default no guard is left out of a part, except where locks of several items, or shards, are compared."""
    for name in PARTS:
        made = parts([name], GUARDS, None)
        assert {part.name for part in made} == {name}
        guards = {case.guard for part in made for case in part.cases}
        assert guards == set(GUARDS) or name in ("items", "shards", "flood")
    assert COLUMNS.keys() == PARTS.keys()


DOCUMENT = Path(__file__).parents[3] / "docs/performance.md"


def fill(document: Path, *files: Path) -> ClickResult:
    """Run the command."""
    return CliRunner().invoke(cli, ["performance", *map(str, files), "--document", str(document)])


@pytest.mark.parametrize("parts_done", [0, 1, None])
def test_an_interrupted_benchmark_is_the_latest_only_with_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts_done: int | None
) -> None:
    """Before its first part is measured, the report before it stays the latest; parts for scaling.md are no default."""
    measured: list[str] = []

    def measure(part: Part, into: BenchResult, console: Console) -> None:
        if len(measured) == parts_done:
            raise KeyboardInterrupt
        measured.append(part.name)
        into.rows += result().part(part.name)

    monkeypatch.setattr(command, "measure", measure)
    monkeypatch.chdir(tmp_path)
    before = new_report()
    point_latest(before)
    CliRunner().invoke(cli, ["bench"])
    assert (LATEST.resolve() == before.resolve()) is (parts_done == 0)
    assert len([each for each in REPORTS.iterdir() if each.is_dir() and not each.is_symlink()]) == 2 - (parts_done == 0)
    assert (LATEST / "bench.json").exists() is (parts_done != 0)
    assert parts_done is not None or list(dict.fromkeys(measured)) == [
        name for name in PARTS if name not in ("scale", "flood")
    ]


def test_a_part_without_a_case_for_a_guard_is_left_out(tmp_path: Path) -> None:
    """No stack is started for it, and if nothing is left to be measured, that is an error."""
    assert {part.name for part in parts(["rush", "flood"], ["redis-lua"], None)} == {"rush"}
    output = tmp_path / "bench.json"
    words = ["bench", "--part", "flood", "--guard", "redis-lua", "--output", str(output)]
    refused = CliRunner().invoke(cli, words)
    assert (refused.exit_code, output.exists()) == (2, False)
    assert refused.output.endswith("Error: no case of flood is for redis-lua\n")


def test_a_part_is_measured_by_its_own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Token and sale exported for other commands reach no instance; what a step costs is for a simulation only."""
    exported = {"SALE": "other", "ADMIN_TOKEN": "secret", "ADMIN_TOKEN_FILE": "/nowhere/token"}
    for name, value in exported.items():
        monkeypatch.setenv(f"FLASHSALE_{name}", value)
    monkeypatch.setattr(command, "measure_bounds", lambda stack: {"http": 1.0})
    monkeypatch.setattr(command, "measure_costs", lambda stack, meter: SETTINGS)
    made = BenchResult("2026-01-01T00:00:00+00:00", {})
    for names, expected in ((["rush"], {}), (["scale", "costs"], SETTINGS)):
        part = Part([Case(name, "redis-lua", 20, 10) for name in names], rounds=1, warm_up=False)
        command.measure(part, made, Console(quiet=True))
        assert made.bounds == {"http": 1.0, **expected}
    assert [row.verdicts for row in made.rows] == [{"EXACT": 1}] * 3


def test_one_round_has_no_spread() -> None:
    """A case that was measured once is not shown as one whose rounds were all alike."""
    made = result()
    made.rows.append(replace(made.part("crowd")[0], case=Case("crowd", "redis-lock", 4, 4), walls_s=[50.0]))
    spreads = {row[0]: row[2] for grid in grids(made) if grid.name == "crowd" for row in grid.rows}
    assert (spreads["none"], spreads["redis-lock"]) == ("0.20-0.60", "one round")


def test_items_that_do_not_add_up_are_summed() -> None:
    """The verdict on many items is one, and what one item has too much does not make up for what another lacks."""
    good = {"initial": 100, "stock": 60, "orders": 40}
    assert total_verdict([good, good], 80) == "EXACT"
    assert total_verdict([good, good], 82) == "UNDERSOLD by 2", "two buyers got nothing"
    assert total_verdict([good, {**good, "stock": 63}, {**good, "stock": 64}], 120) == "7 lost updates"
    assert total_verdict([{**good, "stock": 63}, {**good, "stock": 57}], 80) == "UNDERSOLD by 3, 3 lost updates"
    assert total_verdict([good, {**good, "orders": 102, "stock": 0}], 142) == "OVERSOLD by 2"


@pytest.mark.parametrize(
    ("measured", "guard", "found"),
    [
        ({}, "none", ["4000", "-", "1600", "the CPUs", "1 %"]),
        ({}, "etcd", ["4000", "4500", "1600", "the CPUs", "0 %"]),
        ({"trips": 20.0}, "etcd", ["4000", "10", "1600", "two trips to Redis in turn", "25 %"]),
        ({"http": 10.0}, "none", ["10", "-", "1600", "HTTP alone", "100 %"]),
    ],
)
def test_the_lowest_limit_is_what_a_guard_is_held_to(measured: dict[str, float], guard: str, found: list[str]) -> None:
    """The trips to Redis count only where a purchase needs two in turn, and a guard is bounded by what allows least."""
    made = result()
    made.bounds |= measured
    assert {row[0]: list(row[2:]) for row in limits(made).rows}[guard] == found


def test_results_of_several_runs_make_one_document(tmp_path: Path) -> None:
    """Parts measured one after the other are joined; without one of them the document is left as it is."""
    files = [tmp_path / f"{name}.json" for name in PARTS]
    for name, file in zip(PARTS, files, strict=True):
        replace(result(), rows=result().part(name)).write(file)
    replace(BenchResult.read(files[-1]), bounds={"http": 1.0, "rpc_ms": 0.3}).write(files[-1])
    joined = BenchResult.read(*files)
    assert (joined.bounds["http"], joined.bounds["rpc_ms"]) == (4000.0, 0.3), "what the first one lacks is added"
    document, before = tmp_path / "performance.md", DOCUMENT.read_text(encoding="utf-8")
    document.write_text(before, encoding="utf-8")
    assert "the document shows shards, which was not measured" in fill(document, *files[:-1]).output
    assert document.read_text(encoding="utf-8") == before
    assert fill(document, *files).exit_code == 0
    text = document.read_text(encoding="utf-8")
    assert text == filled(before, result(), [bounds(result()), limits(result()), memory(result())])
    around, around_before = (re.split(r"<!-- bench:.*?/bench -->", each, flags=re.DOTALL) for each in (text, before))
    assert around == around_before
    head = "HTTP answers/s | Redis trips/s | etcd commits/s"
    for row in ("redis-lua | 0.200 | 0.10-0.30 | 0.50 | 1.00", head, "4000 | 9000 | 1000"):
        assert f"\n| {row} |" in text


@pytest.mark.parametrize("command", [["faults", "random"], ["bench-lock"]])
@pytest.mark.parametrize("seconds", ["-1", "0", "inf", "nan", "1e9", "soon"])
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
        yield Bench(stack)


@pytest.mark.parametrize(
    "case",
    [
        *(Case("rush", guard, 40, 30) for guard in ("etcd", "etcd-cohort", "etcd-batch", "redis-lua")),
        Case("items", "etcd-batch", 30, 30, items=3),  # taken in turn, and every item has to add up
        Case("open", "etcd-batch", 40, 100, rate=200.0),
    ],
    ids=lambda case: f"{case.part} {case.guard}",
)
def test_a_run_counts_what_it_costs(bench: Bench, case: Case) -> None:
    """On a real stack: judged by the ledger, with the servers' own counts of calls."""
    bench.run(case)
    done = bench.run(case)
    sold = min(case.buyers, case.stock)
    assert done.verdict == "EXACT"
    assert Counter(answer.outcome.value for answer in done.answers) == Counter(sold=sold, sold_out=case.buyers - sold)
    assert done.count.cpu_s.keys() == {"instances", "etcd", "redis", "buyers"}
    assert 0 < sum(done.count.redis_trips) <= (41 if case.guard == "redis-lua" else 400), "all know of the reset"
    assert done.count.etcd_calls >= 30 or case.guard != "etcd", "each holder has written its own key"
    assert (done.count.etcd_puts == 0) is (case.guard == "redis-lua")
    peaks = bench.meter.peak_mib()
    assert peaks.keys() == {"instances", "etcd", "redis"}
    assert min(peaks.values()) > 1
    assert peaks["instances"] > 20, "an instance has Python in it"


def test_buyers_pay_for_their_clicks_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Garbage collection, the making of clicks and the reading of counters are not CPU time of the buyers."""

    def costly(function: Callable[..., T]) -> Callable[..., T]:
        def call(*args: object) -> T:
            until = time.process_time() + 0.3
            while time.process_time() < until:
                pass
            return function(*args)

        return call

    monkeypatch.setattr(gc, "collect", costly(gc.collect))
    monkeypatch.setattr(runner_module, "click", costly(runner_module.click))
    monkeypatch.setattr(meters_module, "etcd_served", costly(meters_module.etcd_served))
    done = bench.run(Case("rush", "redis-lua", 2, 2))
    assert 0 < done.count.cpu_s["buyers"] < 0.3


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_cost_of_a_simulation_is_measured(bench: Bench) -> None:
    """On a real stack: each step costs something, and the settings are written next to it."""
    costs = measure_costs(bench.stack, bench.meter)
    assert costs.keys() - SETTINGS.keys() == {
        "trip_ms", "redis_trip_ms", "rpc_ms", "etcd_rpc_ms", "event_ms", "etcd_event_ms", "sync_ms", "busy_ms",
        "handover_ms",
    }  # fmt: skip
    assert {name: cost for name, cost in costs.items() if cost <= 0} == {}
    assert costs.items() >= SETTINGS.items()


def test_a_watch_message_costs_what_its_reader_does(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are counted as etcd has sent them, and none is left unread, however slow the readers are."""
    decode = Watch._event

    def costly(watch: Watch, event: object) -> Event:
        until = time.thread_time() + 0.001
        while time.thread_time() < until:
            pass
        return decode(watch, event)

    monkeypatch.setattr(Watch, "_event", costly)
    monkeypatch.setattr(costs_module, "_CHANGES", 10)
    assert costs_module._etcd(bench.stack, bench.meter)["event_ms"] > 0.5
