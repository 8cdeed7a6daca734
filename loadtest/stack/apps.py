"""Instances of the shop, the board and Locust's page, as processes of the local stack."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from loadtest import REPOSITORY
from loadtest.stack.ports import LOOPBACK
from loadtest.stack.process import Process
from loadtest.stack.servers import answers_ok

BOARD_PORT = 8070
_BOARD = "app.board:create_board()"
LOCUST_PORT = 8089
BOARD_URL = f"http://{LOOPBACK}:{BOARD_PORT}"


class Instance(Process):
    """One instance of the shop under gunicorn; ready when it reaches etcd and Redis."""

    def __init__(self, directory: Path, port: int = 0, *, env: Mapping[str, str]) -> None:
        super().__init__("instance", directory, port=port)
        self.name = f"instance-{self.port}"
        self.log = directory / f"{self.name}.log"
        self._env = env

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "gunicorn", "-c", str(REPOSITORY / "app/gunicorn.conf.py"), "app:create_app()"]

    def environment(self) -> Mapping[str, str]:
        own = {
            "FLASHSALE_HOST": LOOPBACK,
            "FLASHSALE_PORT": str(self.port),
            "FLASHSALE_INSTANCE": self.name,
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONUNBUFFERED": "1",
        }
        return {**os.environ, **own, **self._env}

    def is_ready(self) -> bool:
        return answers_ok(f"{self.url}/readyz")


class Board(Process):
    """The page that shows the sale; ready when it answers. `env` tells it what to watch."""

    def __init__(self, directory: Path, port: int = 0, *, env: Mapping[str, str]) -> None:
        super().__init__("board", directory, port=port)
        self._env = dict(env)

    def obey(self, control: Path) -> None:
        """Use the control at this socket from the next start on; see `loadtest.stack.control`."""
        self._env["FLASHSALE_STACK"] = str(control)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "gunicorn", "-c", str(REPOSITORY / "app/board/gunicorn.conf.py"), _BOARD]

    def environment(self) -> Mapping[str, str]:
        own = {
            "FLASHSALE_BOARD_HOST": LOOPBACK,
            "FLASHSALE_BOARD_PORT": str(self.port),
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONUNBUFFERED": "1",
        }
        return {**os.environ, **own, **self._env}

    def is_ready(self) -> bool:
        return answers_ok(f"{self.url}/livez")


class LocustPage(Process):
    """Ready when the page answers; `env` tells the buyers where the sale is."""

    def __init__(self, directory: Path, port: int = 0, *, env: Mapping[str, str]) -> None:
        super().__init__("locust", directory, port=port)
        self._env = dict(env)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def command(self) -> list[str]:
        files = [
            "--config",
            str(REPOSITORY / "pyproject.toml"),
            "--locustfile",
            str(REPOSITORY / "loadtest/locustfile.py"),
        ]
        return [sys.executable, "-m", "locust", "--headful", "--web-port", str(self.port), *files]

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", **self._env}

    def is_ready(self) -> bool:
        return answers_ok(f"{self.url}/")
