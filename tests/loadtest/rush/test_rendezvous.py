"""docs/rendezvous.py runs as it stands there, in one process and over several workers."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from loadtest.ports import free_port
from tests.support.rushing import LOCUST, REPOSITORY
from tests.support.waiting import wait_until

USERS = 10
ROUNDS = 2
TOO_EARLY_S = 0.3  # in which a barrier that opens without the last user would be seen

Log = list[str]


class Site(ThreadingHTTPServer):
    """Notes each request, lets the last user of a round log in late, and keeps clicks until all have come.

    So a log with all clicks of a round shows that they were under way at once.

    Args:
        missing: users whose login is never answered.
    """

    daemon_threads = True

    def __init__(self, missing: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.log: Log = []
        self.closed = threading.Event()
        self._missing = missing
        self._clicks = threading.Barrier(USERS - missing, timeout=100)
        self._noting = threading.Lock()

    def note(self, path: str) -> None:
        with self._noting:
            self.log.append(path)
            logins = self.log.count("/login")
        if path == "/buy":
            self._clicks.wait()
        elif logins <= self._missing:
            self.closed.wait()
        elif logins % USERS == 0:
            time.sleep(TOO_EARLY_S)

    def handle_error(self, request: object, client_address: object) -> None:
        """The users of the round in which Locust is ended leave without an answer."""

    def server_close(self) -> None:
        self.closed.set()
        self._clicks.abort()
        super().server_close()


class _Request(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.server.note(self.path)
        self.send_response(204)
        self.end_headers()

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    threading.Thread(target=site.serve_forever, daemon=True).start()
    try:
        yield site
    finally:
        site.shutdown()
        site.server_close()


@contextmanager
def locust(directory: Path, site: Site, *, workers: int, patience_s: float = 30) -> Iterator[Path]:
    """The locustfile against the site; yields the log of the one process, or of the master."""
    code = (REPOSITORY / "docs/rendezvous.py").read_text(encoding="utf-8")
    file = directory / "rendezvous.py"
    file.write_text(code.replace("Rendezvous()", f"Rendezvous({patience_s})"), encoding="utf-8")
    port = str(free_port())
    common = [*LOCUST, "--locustfile", str(file), "--host", f"http://127.0.0.1:{site.server_port}", "--headless"]
    users = ["--users", str(USERS), "--spawn-rate", str(USERS)]
    master = ["--master", "--master-bind-port", port, "--expect-workers", str(workers)] if workers else []
    commands = [[*common, *users, *master], *[[*common, "--worker", "--master-port", port]] * workers]
    log = directory / "locust.log"
    with ExitStack() as stack, log.open("w") as output:
        processes = [
            stack.enter_context(subprocess.Popen(command, cwd=directory, stdout=output, stderr=output))
            for command in commands
        ]
        try:
            yield log
        finally:
            for process in processes:
                process.terminate()


@pytest.mark.parametrize("workers", [0, 2])
def test_every_round_begins_for_all_users_at_once_when_the_last_has_arrived(tmp_path: Path, workers: int) -> None:
    """In one process and over two workers: all log in before the first clicks, and all click before anyone goes on."""
    with serving(Site()) as site, locust(tmp_path, site, workers=workers) as log:
        wait_until(lambda: len(site.log) >= 2 * USERS * ROUNDS, timeout=100)
    assert site.log[: 2 * USERS * ROUNDS] == (["/login"] * USERS + ["/buy"] * USERS) * ROUNDS, log.read_text()


def test_a_round_that_stays_incomplete_begins_without_the_missing_user(tmp_path: Path) -> None:
    """After its patience; the log says how many came, and the next round goes the same way."""
    with serving(Site(missing=1)) as site, locust(tmp_path, site, workers=2, patience_s=1) as log:
        wait_until(lambda: site.log.count("/buy") >= ROUNDS * (USERS - 1), timeout=100)
    assert re.search(rf"Round {ROUNDS} begins with \d of {USERS} users", log.read_text())
