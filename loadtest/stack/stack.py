"""The stack of docker-compose.yml without Docker: etcd, Redis, several shops, board and Locust, as local processes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from loadtest.ports import BOARD_PORT, LOCUST_PORT, LOOPBACK, free_port
from loadtest.results.folders import REPORTS
from loadtest.stack.apps import App, Board, Instance, LocustPage, cpu_of
from loadtest.stack.control import Control
from loadtest.stack.process import ManagedProcess, Resource, require_free_ports
from loadtest.stack.servers import Etcd, Redis

ETCD_PORT = 2379
REDIS_PORT = 6379
INSTANCE_PORTS = range(8080, 8180, 10)
# Shorter than a purchase waits for its turn (10 s): when a holder is frozen, the others go on before they give up.
STAGE_LEASE_S = 4


class Stack(Resource):
    """etcd, Redis and `instances` shops, with data and logs in `directory`.

    Args:
        ports: "default" are those of docker-compose.yml; "free" are any unused ones.
        env: FLASHSALE_* settings for all shops, over those of the environment.
        durable: whether Redis keeps each write over a kill, as under Compose; a rush takes about a fifth longer.
        board, locust: whether the board and Locust's page are started as well.

    Attributes:
        section_log: where the shops record their critical sections.
        locust_port: where the board looks for Locust's page, started here or elsewhere.
    """

    def __init__(
        self,
        directory: Path,
        *,
        ports: Literal["default", "free"] = "default",
        instances: int = 2,
        env: Mapping[str, str] | None = None,
        board: bool = False,
        locust: bool = False,
        durable: bool = False,
    ) -> None:
        def port(default: int) -> int:
            return 0 if ports == "free" else default

        self.etcd = Etcd(directory, port(ETCD_PORT))
        self.redis = Redis(directory, port(REDIS_PORT), appendonly=durable)
        self.section_log = Path(os.environ.get("FLASHSALE_SECTION_LOG") or directory / "section-log")
        sale = {**os.environ, **(env or {})}.get("FLASHSALE_SALE")
        self._services = {
            **({"FLASHSALE_SALE": sale} if sale else {}),
            "FLASHSALE_REDIS_URL": self.redis.url,
            "FLASHSALE_ETCD_ENDPOINTS": self.etcd.endpoint,
            "FLASHSALE_SECTION_LOG": str(self.section_log),
        }
        self.instances = [
            Instance(directory, port(default), env={**self._services, **cpu_of(number), **(env or {})})
            for number, default in enumerate(INSTANCE_PORTS[:instances])
        ]
        self.locust_port = port(LOCUST_PORT) or free_port()
        watched = {
            **self._services,
            "FLASHSALE_LOCUST": f"http://{LOOPBACK}:{self.locust_port}",
            "FLASHSALE_INSTANCES": ",".join(self.urls),
            "FLASHSALE_REPORTS": str(REPORTS.resolve()),
            **(env or {}),
        }
        self.board = Board(directory, port(BOARD_PORT), env=watched) if board else None
        buying = {"LOCUST_HOST": ",".join(self.urls), **self.client_environment}
        self.locust = LocustPage(directory, self.locust_port, env=buying) if locust else None
        self._control: Control | None = None
        self.pages: list[App] = [page for page in (self.board, self.locust) if page]
        self.processes: list[ManagedProcess] = [self.etcd, self.redis, *self.instances, *self.pages]

    @classmethod
    def interactive(cls, directory: Path, *, ports: Literal["default", "free"] = "default") -> Stack:
        """With board and Locust's page, and a lease with which freezing and thawing a holder is a scene of 10 s."""
        lease = os.environ.get("FLASHSALE_LEASE_TTL") or str(STAGE_LEASE_S)
        env = {"FLASHSALE_LEASE_TTL": lease}
        pages = {"board": True, "locust": True}
        return cls(directory, ports=ports, env=env, durable=True, **pages)

    @property
    def urls(self) -> list[str]:
        return [instance.url for instance in self.instances]

    @property
    def client_environment(self) -> dict[str, str]:
        """FLASHSALE_* settings that lead buyers here."""
        board = {"FLASHSALE_BOARD_URL": self.board.url} if self.board else {}
        return {**self._services, **board}

    def start(self, *, on_ready: Callable[[ManagedProcess], None] = lambda _: None) -> None:
        """Start everything at once and wait until each process is ready, telling `on_ready` of it.

        Raises:
            ServerError: ports are in use, and nothing was started; or a process ended or stayed silent.
        """
        require_free_ports(self.processes)
        if self.board:
            self._control = self._control or Control([*self.instances, self.etcd, self.redis], self.board)
            self.board.env["FLASHSALE_STACK"] = str(self._control.path)
        for process in self.processes:
            process.launch()
        for process in self.processes:
            process.wait_ready()
            on_ready(process)

    def stop(self) -> None:
        """Stop the shops while etcd and Redis still answer them, so that they finish their purchases; idempotent."""
        _stop_all(self.pages)
        if self._control:
            self._control.close()
            self._control = None
        _stop_all(self.instances)
        self.redis.stop()
        self.etcd.stop()


def _stop_all(processes: Sequence[ManagedProcess]) -> None:
    """Ask all of them to end before waiting for any."""
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait_ended()


def usage_hints(stack: Stack) -> dict[str, str]:
    """What there is, by what it is called."""
    settings = {**stack.client_environment, "LOCUST_HOST": ",".join(stack.urls)}
    given = [f"{name}={shlex.quote(value)}" for name, value in settings.items()]
    return {
        **{page.name.capitalize(): page.url for page in stack.pages},
        "Shops": " ".join(stack.urls),
        "Buy one item": f"curl -X POST '{stack.urls[0]}/stock/reduce?guard=etcd'",
        "Send the rush": " ".join([*given, ".venv/bin/locust"]),
    }
