"""Running Locust as its users do: as a process. Importing it would patch the standard library under the tests' feet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from loadtest.ports import free_port
from loadtest.results.comparison import Comparison
from loadtest.stack.stack import Stack
from tests.support.waiting import wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
LOCUST = [sys.executable, "-m", "locust"]


def environment(stack: Stack, **settings: str) -> dict[str, str]:
    """What tells the rush where the sale is."""
    return {
        **os.environ,
        "LOCUST_HOST": ",".join(stack.urls),
        "FLASHSALE_REDIS_URL": stack.redis.url,
        "FLASHSALE_ETCD_ENDPOINTS": stack.etcd.endpoint,
        **settings,
    }


def assert_one_burst(by_instance: Mapping[str, Mapping[str, int]], buyers: int) -> None:
    """Each buyer clicked exactly once, half of them at each shop."""
    assert [sum(outcomes.values()) for outcomes in by_instance.values()] == [buyers // 2] * 2


class Finished:
    """A rush that is over: exit code, what it printed, its comparison, and Locust's statistics."""

    def __init__(self, env: Mapping[str, str], directory: Path, *options: str) -> None:
        report = directory / "comparison.json"
        ports = ["--master-bind-port", (port := str(free_port())), "--master-port", port]
        files = ["--report", str(report), "--json-file", str(directory / "statistics")]
        done = subprocess.run(
            [*LOCUST, *files, *ports, *options], cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=100
        )
        self.code = done.returncode
        self.printed = done.stdout
        self.logged = done.stderr
        self.comparison = Comparison.read(report) if report.exists() else None
        self._statistics = directory / "statistics.json"

    def runs(self) -> dict[str, Any]:
        """The runs by guard; a rush without comparison fails the test with what it printed."""
        assert self.comparison, self.printed + self.logged
        return {run.guard: run for run in self.comparison.runs}

    def requests(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Requests and failures by type and name, from Locust's statistics."""
        rows = json.loads(self._statistics.read_text())
        return {(row["method"], row["name"]): (row["num_requests"], row["num_failures"]) for row in rows}


class Page:
    """Locust's page, driven through its own HTTP interface; its form has `hosts`."""

    def __init__(self, port: int, hosts: str = "") -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.hosts = hosts

    def get(self, path: str, language: str = "") -> str:
        asked = urllib.request.Request(self.url + path, headers={"Accept-Language": language} if language else {})
        with urllib.request.urlopen(asked, timeout=30) as response:
            return str(response.read().decode())

    def post(self, path: str, **form: object) -> Any:
        data = urllib.parse.urlencode(form, doseq=True).encode()
        with urllib.request.urlopen(self.url + path, data=data, timeout=30) as response:
            return json.load(response)

    def is_up(self, workers: int) -> bool:
        try:
            return bool(json.loads(self.get("/worker-count"))["worker_count"] == workers)
        except OSError:
            return False

    def arguments(self, language: str = "") -> Any:
        """What the page's script is given: the state, the fields of the form, their choices."""
        script = self.get("/", language).split("window.templateArgs =")[1].split("</script>")[0]
        return json.loads(script)

    def comparison(self) -> Any:
        """The comparison so far; None before there is one."""
        return json.loads(self.get("/comparison.json"))

    def start(self, *, guards: list[str], stock: int, buyers: int, hold_ms: int = 0, spawn_rate: float = 500) -> None:
        """Fill in the form and press the button."""
        form = {"user_count": buyers, "spawn_rate": spawn_rate, "guards": guards, "stock": stock, "hold_ms": hold_ms}
        assert self.post("/swarm", **form, host=self.hosts)["success"]

    def stop(self) -> None:
        """Press Stop; until Locust 2.47, which needs Python 3.11, that was a GET."""
        if sys.version_info >= (3, 11):
            self.post("/stop")
        else:
            self.get("/stop")

    def compare(self, *, guards: list[str], stock: int, buyers: int) -> dict[str, Any]:
        """The runs of a whole comparison by guard. `stock` tells it from the one before: let it differ."""
        self.start(guards=guards, stock=stock, buyers=buyers)
        wait_until(lambda: self.is_complete(guards, stock), timeout=100)
        wait_until(self.is_idle, timeout=100)
        return {run["guard"]: run for run in self.comparison()["runs"]}

    def is_complete(self, guards: list[str], stock: int) -> bool:
        done = self.comparison()
        return done is not None and done["stock"] == stock and len(done["runs"]) == len(guards)

    def is_idle(self) -> bool:
        return self.arguments()["state"] in ("ready", "stopped")


@contextmanager
def locust_page(
    env: Mapping[str, str], *options: str, workers: int = 0, output: int | IO[str] = subprocess.DEVNULL
) -> Iterator[Page]:
    """Locust with its page; `workers` is the number of other processes with buyers, `output` takes what it prints."""
    port, master = free_port(), str(free_port())
    ports = ["--web-port", str(port), "--master-bind-port", master, "--master-port", master]
    with subprocess.Popen(
        [*LOCUST, "--headful", *options, *ports, *(["--processes", str(workers)] if workers else [])],
        cwd=REPOSITORY,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.DEVNULL,
    ) as locust:
        try:
            shown = Page(port, env["LOCUST_HOST"])
            wait_until(lambda: shown.is_up(workers), timeout=60)
            yield shown
        finally:
            locust.terminate()
            locust.wait(60)
