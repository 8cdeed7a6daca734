"""docs/examples/rendezvous.py runs as it stands there, in one process and over several workers."""

from __future__ import annotations

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

    So a log with all clicks of a round shows that they were under way at once.
    """

    def __init__(self) -> None:
        self.log, self._noting = list[str](), threading.Lock()
        self.clicks = threading.Barrier(USERS, timeout=100)

    def __call__(self, request: BaseHTTPRequestHandler, _: bytes) -> bytes:
        with self._noting:
            self.log.append(request.path)
            logins = self.log.count("/login")
        if request.path == "/buy":
            with suppress(threading.BrokenBarrierError):  # of the round in which Locust is ended
                self.clicks.wait()
        elif logins % USERS == 0:
            time.sleep(TOO_EARLY_S)
        return b""


@contextmanager
def locust(directory: Path, url: str, *, workers: int) -> Iterator[Path]:
    """The locustfile against the site; yields the log of the one process, or of the master."""
    port = str(free_port())
    common = [*LOCUST, "--locustfile", str(REPOSITORY / "docs/examples/rendezvous.py"), "--host", url, "--headless"]
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
    site = Site()
    with answering(site) as url, locust(tmp_path, url, workers=workers) as log:
        wait_until(lambda: len(site.log) >= 2 * USERS * ROUNDS, timeout=100)
        site.clicks.abort()
    assert site.log[: 2 * USERS * ROUNDS] == (["/login"] * USERS + ["/buy"] * USERS) * ROUNDS, log.read_text()
