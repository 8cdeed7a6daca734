"""docs/examples/rendezvous.py runs as it stands there, in one process and over several workers."""

from __future__ import annotations

import subprocess
import threading
import time
from contextlib import ExitStack, suppress
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


@pytest.mark.parametrize("workers", [0, 2])
def test_every_round_begins_for_all_users_at_once_when_the_last_has_arrived(tmp_path: Path, workers: int) -> None:
    """In one process and over two workers: all log in before the first clicks, and all click before anyone goes on."""
    site, port, log = Site(), str(free_port()), tmp_path / "locust.log"
    with answering(site) as url, ExitStack() as stack, log.open("w") as output:
        common = [*LOCUST, "--locustfile", str(REPOSITORY / "docs/examples/rendezvous.py"), "--host", url, "--headless"]
        users = ["--users", str(USERS), "--spawn-rate", str(USERS)]
        master = ["--master", "--master-bind-port", port, "--expect-workers", str(workers)] if workers else []
        for words in ([*users, *master], *[["--worker", "--master-port", port]] * workers):
            command = [*common, *words]
            process = stack.enter_context(subprocess.Popen(command, cwd=tmp_path, stdout=output, stderr=output))
            stack.callback(process.terminate)
        wait_until(lambda: len(site.log) >= 2 * USERS * ROUNDS, timeout=100)
        site.clicks.abort()
    assert site.log[: 2 * USERS * ROUNDS] == (["/login"] * USERS + ["/buy"] * USERS) * ROUNDS, log.read_text()
