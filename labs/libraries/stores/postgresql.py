"""PostgreSQL as Debian has it, asked through psql."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from labs.libraries.program import NotTried
from labs.libraries.stores.store import Store
from loadtest.stack import reaper
from loadtest.stack.process import ManagedProcess

DEBIAN = Path("/usr/lib/postgresql")
OWNER = "postgres"  # the server refuses to run as root
TIMEOUT_S = 60
CONNECTIONS = 300  # instead of 100: one for each waiter of the largest trial, as the clients' pools have
TABLE = "CREATE TABLE locks (name text PRIMARY KEY)"  # for locks that are rows
LOCKS = """SELECT DISTINCT pid FROM pg_locks WHERE locktype = 'advisory'
           OR (relation = 'locks'::regclass AND mode = 'RowShareLock')"""


class PostgreSQLServer(ManagedProcess):
    """A cluster of its own in a directory that its owner can reach; raises NotTried."""

    def __init__(self, directory: Path) -> None:
        super().__init__("postgresql", directory, port=0)
        on_path = shutil.which("initdb")
        found = [Path(on_path).resolve().parent] if on_path else sorted(DEBIAN.glob("*/bin"))
        users = {user.pw_name for user in pwd.getpwall()}
        if not found or (os.geteuid() == 0 and OWNER not in users):
            raise NotTried(f"PostgreSQL or its user {OWNER} is not on this machine (apt install postgresql)")
        self.programs = found[-1]
        self.data = Path(tempfile.mkdtemp(prefix="stock-flash-sale-postgresql-"))
        reaper.watch("directory", self.data)
        if os.geteuid() == 0:
            shutil.chown(self.data, OWNER, OWNER)

    def as_owner(self, program: str) -> list[str]:
        """The program, run by the owner of the data."""
        owner = ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups"] if os.geteuid() == 0 else []
        return [*owner, str(self.programs / program)]

    def launch(self) -> None:
        if not (self.data / "PG_VERSION").exists():
            command = [*self.as_owner("initdb"), "-D", str(self.data), "--auth=trust", f"--username={OWNER}"]
            subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT_S, cwd="/")
        super().launch()

    def command(self) -> list[str]:
        settings = ("listen_addresses=127.0.0.1", "unix_socket_directories=", f"max_connections={CONNECTIONS}")
        flags = [word for setting in settings for word in ("-c", setting)]
        return [*self.as_owner("postgres"), "-D", str(self.data), "-p", str(self.port), *flags]

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "LC_ALL": "C.UTF-8"}

    def is_ready(self) -> bool:
        return self._client("pg_isready", "-q").returncode == 0

    def select(self, query: str) -> list[str]:
        """The lines of an answer."""
        done = self._client("psql", "-U", OWNER, "-Atc", query)
        done.check_returncode()
        return done.stdout.splitlines()

    def _client(self, program: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.programs / program), "-h", "127.0.0.1", "-p", str(self.port), *options]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)

    def stop(self) -> None:
        self.kill()
        shutil.rmtree(self.data, ignore_errors=True)


class PostgreSQLStore(Store):
    """One server. A lock has no key: what it has is a session that holds it, or waits for it."""

    def __init__(self, directory: Path) -> None:
        self._server = PostgreSQLServer(directory)
        super().__init__([self._server])

    def start(self) -> None:
        super().start()
        self._server.select(TABLE)

    def stop(self) -> None:
        super().stop()
        self._server.stop()

    def version(self) -> str:
        return f"PostgreSQL {self._server.select('SHOW server_version')[0].split()[0]}"

    def keys(self, name: str) -> list[str]:
        return self._server.select(LOCKS)

    def delete(self, name: str) -> None:
        self._server.select(f"SELECT pg_terminate_backend(pid) FROM ({LOCKS}) AS locks")

    def requests(self) -> int:
        self._server.select("SELECT pg_stat_force_next_flush()")
        return int(self._server.select("SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database")[0])
