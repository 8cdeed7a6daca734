"""docs/examples/rendezvous.py runs as it stands there, in one process and over several workers."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from loadtest.ports import free_port
from tests.support.rushing import LOCUST, REPOSITORY
from tests.support.serving import answering
from tests.support.waiting import wait_until

USERS = 10
ROUNDS = 2
TOO_EARLY_S = 0.3  # in which a barrier that opens without the last user would be seen


class Site:
    """Notes each request, lets the last user of a round log in late, and keeps clicks until all have come.

    So a log with all clicks of a round shows that they were under way at once. Logins of `missing` users are answered
    at the end alone.
    """

    def __init__(self, missing: int = 0) -> None:
        self.url, self.log, self._missing = "", list[str](), missing
        self._ended, self._noting = threading.Event(), threading.Lock()
        self._clicks = threading.Barrier(USERS - missing, timeout=100)

    def __call__(self, request: BaseHTTPRequestHandler, _: bytes) -> bytes:
        with self._noting:
            self.log.append(request.path)
            logins = self.log.count("/login")
        if request.path == "/buy":
            with suppress(threading.BrokenBarrierError):  # of the round in which Locust is ended
                self._clicks.wait()
        elif logins <= self._missing:
            self._ended.wait()
        elif logins % USERS == 0:
            time.sleep(TOO_EARLY_S)
        return b""

    @contextmanager
    def serving(self) -> Iterator[Site]:
        with answering(self) as self.url:
            yield self
            self._ended.set()
            self._clicks.abort()


@contextmanager
def locust(directory: Path, site: Site, *, workers: int, patience_s: float = 30) -> Iterator[Path]:
    """The locustfile against the site; yields the log of the one process, or of the master."""
    code = (REPOSITORY / "docs/examples/rendezvous.py").read_text(encoding="utf-8")
    file = directory / "rendezvous.py"
    file.write_text(code.replace("Rendezvous()", f"Rendezvous({patience_s})"), encoding="utf-8")
    port = str(free_port())
    common = [*LOCUST, "--locustfile", str(file), "--host", site.url, "--headless"]
    users = ["--users", str(USERS), "--spawn-rate", str(USERS)]
    master = ["--master", "--master-bind-port", port, "--expect-workers", str(workers)] if workers else []
    commands = [[*common, *users, *master], *[[*common, "--worker", "--master-port", port]] * workers]
    log = directory / "locust.log"
    with ExitStack() as stack, log.open("w") as output:
        for command in commands:
            process = stack.enter_context(subprocess.Popen(command, cwd=directory, stdout=output, stderr=output))
            stack.callback(process.terminate)
        yield log


@pytest.mark.parametrize("workers", [0, 2])
def test_every_round_begins_for_all_users_at_once_when_the_last_has_arrived(tmp_path: Path, workers: int) -> None:
    """In one process and over two workers: all log in before the first clicks, and all click before anyone goes on."""
    with Site().serving() as site, locust(tmp_path, site, workers=workers) as log:
        wait_until(lambda: len(site.log) >= 2 * USERS * ROUNDS, timeout=100)
    assert site.log[: 2 * USERS * ROUNDS] == (["/login"] * USERS + ["/buy"] * USERS) * ROUNDS, log.read_text()


def test_a_round_that_stays_incomplete_begins_without_the_missing_user(tmp_path: Path) -> None:
    """After its patience; the log says how many came, and the next round goes the same way."""
    with Site(missing=1).serving() as site, locust(tmp_path, site, workers=2, patience_s=1) as log:
        wait_until(lambda: site.log.count("/buy") >= ROUNDS * (USERS - 1), timeout=100)
    assert re.search(rf"Round {ROUNDS} begins with \d of {USERS} users", log.read_text())
