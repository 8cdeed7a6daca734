"""The stack of docker-compose.yml without Docker: etcd, Redis, several shops and the board, as local processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from loadtest.results.folders import REPORTS
from loadtest.stack.apps import BOARD_PORT, Board, Instance
from loadtest.stack.control import Control
from loadtest.stack.ports import LOOPBACK, free_port
from loadtest.stack.process import Lifetime, Process, require_free_ports
from loadtest.stack.rush_command import LOCUST_PORT, rush_command
from loadtest.stack.servers import Etcd, Redis

ETCD_PORT = 2379
REDIS_PORT = 6379
INSTANCE_PORTS = range(8080, 8180, 10)


class Stack(Lifetime):
    """etcd, Redis and `instances` shops, with data and logs in `directory`.

    Args:
        directory: made if missing, and left in place at the end.
        ports: "default" are those of docker-compose.yml; "free" are any that nobody listens on.
        port_offset: is added to the default ports.
        instances: how many shops.
        env: FLASHSALE_* settings for all shops, over those of the environment.
        board: whether the board is started, too.

    Attributes:
        section_log: where the shops record their critical sections.
        locust_port: where the board looks for Locust's page, which is no part of the stack.
    """

    def __init__(
        self,
        directory: Path,
        *,
        ports: Literal["default", "free"] = "default",
        port_offset: int = 0,
        instances: int = 2,
        env: Mapping[str, str] | None = None,
        board: bool = False,
    ) -> None:
        def port(default: int) -> int:
            return 0 if ports == "free" else default + port_offset

        self.etcd = Etcd(directory, port(ETCD_PORT))
        self.redis = Redis(directory, port(REDIS_PORT))
        self.section_log = Path(os.environ.get("FLASHSALE_SECTION_LOG") or directory / "section-log")
        self._services = {
            "FLASHSALE_REDIS_URL": self.redis.url,
            "FLASHSALE_ETCD_ENDPOINTS": self.etcd.endpoint,
            "FLASHSALE_SECTION_LOG": str(self.section_log),
        }
        self.instances = [
            Instance(directory, port(default), env={**self._services, **(env or {})})
            for default in INSTANCE_PORTS[:instances]
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
        self._control: Control | None = None
        self.processes: list[Process] = [self.etcd, self.redis, *self.instances, *([self.board] if self.board else [])]

    @property
    def urls(self) -> list[str]:
        """Where the shops answer."""
        return [instance.url for instance in self.instances]

    @property
    def client_environment(self) -> dict[str, str]:
        """FLASHSALE_* settings that lead buyers here."""
        board = {"FLASHSALE_BOARD_URL": self.board.url} if self.board else {}
        return {**self._services, **board}

    @property
    def rush_command(self) -> str:
        """What starts Locust's page, led here."""
        return rush_command(self.urls, self.client_environment, self.locust_port)

    def start(self, *, on_ready: Callable[[Process], None] = lambda _: None) -> None:
        """Start everything at once and wait until each process is ready, telling `on_ready` of it.

        Raises:
            PortOccupied: names all ports that somebody else listens on; nothing was started.
            StartFailed: a process ended or stayed silent.
        """
        require_free_ports(self.processes)
        if self.board:
            self._control = self._control or Control(self.instances)
            self.board.obey(self._control.path)
            self.board.hint(self.rush_command)
        for process in self.processes:
            process.launch()
        for process in self.processes:
            process.wait_ready()
            on_ready(process)

    def stop(self) -> None:
        """Stop the shops while etcd and Redis still answer them, so that they finish their purchases; idempotent."""
        if self.board:
            self.board.stop()
        if self._control:
            self._control.close()
            self._control = None
        for instance in self.instances:
            instance.terminate()
        for instance in self.instances:
            instance.wait_ended()
        self.redis.stop()
        self.etcd.stop()


def usage_hints(stack: Stack) -> dict[str, str]:
    """What there is, by what it is called."""
    board = {"Board": stack.board.url} if stack.board else {}
    return {
        **board,
        "Shops": " ".join(stack.urls),
        "Buy one item": f"curl -X POST '{stack.urls[0]}/stock/reduce?guard=etcd'",
        "Send the rush": stack.rush_command,
    }
