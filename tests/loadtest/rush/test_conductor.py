"""The rush, driven by Locust against a real stack: in one process, in several, and from Locust's page."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from app.contract.outcomes import Outcome
from app.contract.verdict import Kind
from loadtest.ports import free_port
from loadtest.results.answer import Answer
from loadtest.results.audit import audit
from loadtest.results.record import Record
from loadtest.rush.conductor import DEFAULT_GUARDS, LOST_AFTER_S, Conductor, Plan
from loadtest.rush.progress import Terminal
from loadtest.shop_client.shops import SaleError, Shops, in_progress
from loadtest.stack.stack import Stack
from tests.support.rushing import LOCUST, REPOSITORY, Finished, assert_one_burst, environment
from tests.support.shops import open_sale
from tests.support.waiting import has_ended, wait_until

pytestmark = pytest.mark.timeout(180)  # the patience of its waits comes before

BUYERS, STOCK = 60, 20
SMALL = ("--users", str(BUYERS), "--stock", str(STOCK))


def test_bare_locust_compares_no_lock_with_etcd(stack: Stack, tmp_path: Path) -> None:
    """In two processes each buyer clicks once, it oversells unlocked and is exact under etcd, and the audit agrees."""
    env = environment(stack, FLASHSALE_SECTION_LOG=str(stack.section_log))
    rush = Finished(env, tmp_path, *SMALL, "--hold-ms=2", "--processes=2")
    runs = rush.runs()
    assert list(runs) == DEFAULT_GUARDS
    assert rush.code == 0, rush.logged
    assert (runs["none"].kind, runs["etcd"].kind) == (Kind.OVERSOLD, Kind.EXACT)
    assert "Every promise was kept. Without a lock, " in rush.printed
    assert "ERROR" not in rush.logged
    for guard, run in runs.items():
        assert_one_burst(run.by_instance, BUYERS)
        record = Record.read(tmp_path / "records" / f"{guard}.json")
        assert (record.guard, record.verdict["verdict"], len(record.answers)) == (guard, run.verdict, BUYERS)
        assert len(record.ledger) == run.orders
        assert {row.order for row in record.ledger} <= {section.order for section in record.sections}
        assert {section.guard for section in record.sections} == {guard}
        result = audit(record)
        assert (result.losses.total, len(result.losses.pairs)) == (run.lost_updates, run.lost_updates)
        assert result.missing == []
        assert bool(result.losses.losing) == (guard == "none")


@pytest.mark.slow
def test_a_guard_that_ran_out_of_time_has_no_verdict(stack: Stack, tmp_path: Path) -> None:
    """Buyers without a turn are failures with a name, but break no promise; stock, orders and queue are sampled."""
    rush = Finished(environment(stack), tmp_path, *SMALL, "--guards=etcd", "--hold-ms=1000")  # 10 in their 10 seconds
    run = rush.runs()["etcd"]
    assert run.outcomes["lock_timeout"] > BUYERS - STOCK, run.outcomes
    assert run.undersold == STOCK - run.outcomes["sold"] > 0
    assert rush.requests()["etcd", "lock_timeout"] == (run.outcomes["lock_timeout"],) * 2
    assert (rush.code, run.kept_promise) == (2, None)
    assert f"No verdict: this machine is too slow for etcd ({run.verdict}), or the think time, 20 s" in rush.printed
    assert run.verdict == f"UNDERSOLD by {run.undersold}, gave up: {run.outcomes['lock_timeout']}"
    record = Record.read(tmp_path / "records" / "etcd.json")
    assert (len(record.answers), len(record.ledger), record.sections) == (BUYERS, run.orders, [])
    assert len(record.samples) >= 2
    assert [each.at_ms for each in record.samples] == sorted(each.at_ms for each in record.samples)
    for each in record.samples:
        assert each.stock is not None
        assert each.orders is not None
        assert STOCK <= each.stock + each.orders <= STOCK + 1  # it may be asked between a read and a write
    assert max(each.waiters or 0 for each in record.samples) > 10


def test_a_shop_that_dies_leaves_errors_and_doubt(stack: Stack, tmp_path: Path) -> None:
    """Clicks at a shop that is killed in the rush are errors; sold and sold out at the other one are not failures."""
    shop = stack.instances[1]
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(Finished, environment(stack), tmp_path, *SMALL, "--guards=redis-lua", "--hold-ms=5000")
        wait_until(lambda: in_progress(shop.url) == BUYERS // 2, timeout=60)
        shop.kill()
        rush = running.result()
    run = rush.runs()["redis-lua"]
    assert (run.verdict, run.orders, rush.code) == ("EXACT, an instance went", STOCK, 0)
    assert rush.requests() == {
        ("redis-lua", "sold"): (STOCK, 0),
        ("redis-lua", "sold_out"): (BUYERS // 2 - STOCK, 0),
        ("redis-lua", "error"): (BUYERS // 2, BUYERS // 2),
    }


SOLD_OUT = Answer("ada", Outcome.SOLD_OUT, "shop-a", status=409)
REFUSED = Answer("ada", Outcome.ERROR, "shop-a", status=400, detail="The moon is not full.")


class Crowd:
    """Locust's runner, as the conductor knows it: all buyers come at once and get this answer.

    Meanwhile `disturb` happens to the sale.
    """

    def __init__(self, answer: Answer = SOLD_OUT, disturb: Callable[[], object] = lambda: None) -> None:
        self._listeners: dict[str, Callable[..., None]] = {}
        self._answer, self._disturb = answer, disturb

    def register_message(self, message: str, listener: Callable[..., None]) -> None:
        self._listeners[message] = listener

    def hear(self, message: str, worker: str = "local", **data: Any) -> None:
        """The master, or a worker, says something about the first round."""
        self._listeners[message](environment=None, msg=SimpleNamespace(node_id=worker, data={"number": 1, **data}))

    def send_message(self, message: str, data: dict[str, Any]) -> None:
        if message == "round":
            self.hear("arrived", buyers=[f"buyer-{number}" for number in range(BUYERS)])
        else:
            self._disturb()
            self.hear("answers", answers=[astuple(self._answer)] * BUYERS)


class Workers(Crowd):
    """Three workers, each with a buyer: one answers, one answers late, and one went down."""

    def __init__(self) -> None:
        super().__init__()
        silent_s = {"well": 0, "late": LOST_AFTER_S - 1, "down": LOST_AFTER_S}
        self._workers = {worker: SimpleNamespace(heartbeat=-seconds) for worker, seconds in silent_s.items()}
        self._looks = 0

    @property
    def clients(self) -> dict[str, SimpleNamespace]:
        """What the conductor looks at while it waits; the late answer comes after some looks."""
        self._looks += 1
        if self._looks == 4:
            self._sell_out("late")
        return self._workers

    def send_message(self, message: str, data: dict[str, Any]) -> None:
        if message == "round":
            for worker in [*self._workers, "quit"]:
                self.hear("arrived", worker, buyers=[f"of {worker}"])
        else:
            self._sell_out("well")

    def _sell_out(self, worker: str) -> None:
        now_ms = time.time() * 1000
        answer = replace(SOLD_OUT, buyer=f"of {worker}", sent_ms=now_ms, answered_ms=now_ms)
        self.hear("answers", worker, answers=[astuple(answer)])


@pytest.fixture
def plan(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A rush for nothing on this stack, which the environment describes."""
    for name, value in stack.client_environment.items():
        monkeypatch.setenv(name, value)
    return Plan(["etcd"], 0, hold_ms=0, hosts=stack.urls, trusted=[])


def test_buyers_of_a_worker_that_went_down_are_not_waited_for(plan: Plan) -> None:
    """What they bought is in doubt, as with an answer that is lost; a worker that is only late is waited for."""
    conductor = Conductor(Workers(), Terminal())
    (run,) = conductor.compare(plan, buyers=4).runs
    assert (run.outcomes["sold_out"], run.outcomes["error"], run.verdict) == (2, 2, "EXACT")
    assert run.by_instance["lost worker"]["error"] == 2
    doubted = {answer.buyer for answer in conductor.records[0].answers if answer.in_doubt}
    assert doubted == {"of down", "of quit"}


@pytest.mark.parametrize(
    ("settings", "change", "disturb", "advice"),
    [
        ({}, {"hosts": ["http://127.0.0.1:1"]}, None, "No shop answers at http://127.0.0.1:1: start it with make up"),
        ({"FLASHSALE_SALE": "another"}, {}, None, "There is no such sale in Redis: set FLASHSALE_REDIS_URL and"),
        ({"FLASHSALE_REDIS_URL": "redis://127.0.0.1:1/0"}, {}, None, "The ledger cannot be read: "),
        ({}, {"guards": ["hope"]}, None, "The shop has no guard hope: choose from none, "),
        ({}, {}, None, "shop-a refused a purchase: The moon is not full."),
        (
            {}, {}, lambda stack: Shops(stack.urls).reset(1),
            r"The sale was reset during the rush; start again, and use this stack for nothing else meanwhile\.$",
        ),
        (
            {}, {}, lambda stack: stack.redis.kill(),
            r"The ledger cannot be read: .*[^.]\. See that Redis runs, and is the one in FLASHSALE_REDIS_URL\.$",
        ),
    ],
    ids=["no shop", "no sale", "no Redis", "no guard", "refused", "reset", "Redis killed"],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused_in_one_line(
    stack: Stack, plan: Plan, monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str], change: dict[str, Any], disturb: Callable[[Stack], object] | None, advice: str,
) -> None:  # fmt: skip
    """Whatever is missing, wrong or disturbed, one line says what to do, and no guard is blamed."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    crowd = Crowd(SOLD_OUT, lambda: disturb(stack)) if disturb else Crowd(REFUSED)
    conductor = Conductor(crowd, Terminal())
    with pytest.raises(SaleError, match=f"^{advice}"):
        conductor.compare(replace(plan, **change), BUYERS)
    assert conductor.verdicts == []


def test_no_comparison_is_one_line_and_exit_code_2(stack: Stack, tmp_path: Path) -> None:
    """An occupied port is refused before Locust tries: that cannot be taken for a result."""
    port = stack.instances[0].port
    rush = Finished(environment(stack), tmp_path, *SMALL, "--headful", "--web-port", str(port))
    assert (rush.code, rush.comparison) == (2, None)
    (line,) = [line for line in rush.printed.splitlines() if line.startswith("Error: ")]
    assert line == f"Error: Port {port} is in use: stop the Locust that has it, or choose another by --web-port."
    assert "Every promise was kept" not in rush.printed
    assert "Traceback" not in rush.logged


@pytest.mark.slow
@pytest.mark.parametrize("processes", [[], ["--processes=2"]], ids=["one process", "three"])
def test_ctrl_c_is_no_traceback(stack: Stack, processes: list[str]) -> None:
    """Wherever Locust is, also in the midst of what conducts the rush, it ends with a line and exit code 2."""
    ports = ["--master-bind-port", (port := str(free_port())), "--master-port", port]
    words = [*LOCUST, "--guards=etcd", "--hold-ms=30", "--users=60", *ports, *processes]
    for is_selling in (False, True):
        open_sale(stack)
        with subprocess.Popen(
            words, cwd=REPOSITORY, env=environment(stack), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        ) as locust:  # fmt: skip
            assert locust.stderr is not None
            told = locust.stderr.readline() + locust.stderr.readline()  # "Starting Locust", and then it has a runner
            while is_selling and not sum(map(in_progress, stack.urls)):
                time.sleep(0.01)
            os.killpg(locust.pid, signal.SIGINT)  # as a terminal does
            printed, logged = locust.communicate(timeout=60)
        assert locust.returncode == 2
        assert "Stopped before the first verdict." in printed.splitlines()
        assert "Traceback" not in told + logged
        assert "KeyboardInterrupt" not in told + logged


@pytest.mark.slow
@pytest.mark.parametrize("is_selling", [False, True], ids=["as they start", "in the rush"])
def test_workers_end_with_their_master(stack: Stack, is_selling: bool) -> None:
    """Whether or not they have met it, they do not wait for it as long as Locust would, a minute or five."""
    ports = ["--master-bind-port", (port := str(free_port())), "--master-port", port]
    with subprocess.Popen(
        [*LOCUST, "--guards=etcd", "--hold-ms=500", *SMALL, *ports, "--processes=2"], cwd=REPOSITORY,
        env=environment(stack), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as locust:  # fmt: skip
        wait_until(lambda: len(psutil.Process(locust.pid).children()) == 2)
        workers = psutil.Process(locust.pid).children()
        if is_selling:
            wait_until(lambda: any(map(in_progress, stack.urls)))
        locust.kill()
    wait_until(lambda: all(map(has_ended, workers)))
