"""Instances of the shop, the board and Locust's page, as processes of the local stack."""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from loadtest import REPOSITORY
from loadtest.ports import LOOPBACK, free_port
from loadtest.stack.process import ManagedProcess
from loadtest.stack.servers import PROBE_TIMEOUT_S, answers_ok

_BOARD = "app.board:create_board()"


class App(ManagedProcess):
    """A program of this repository that answers HTTP; ready when `probe` does. `env` goes over all other settings."""

    probe = "/livez"

    def __init__(self, name: str, directory: Path, port: int, env: Mapping[str, str]) -> None:
        super().__init__(name, directory, port=port)
        self.env = {"PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", **env}

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, **self.env}

    def is_ready(self) -> bool:
        return answers_ok(f"{self.url}{self.probe}")


def cpu_of(number: int) -> dict[str, str]:
    """The setting that keeps the `number`-th instance on its own CPU, unless the environment has one, or a blank."""
    return {} if "FLASHSALE_CPU" in os.environ else {"FLASHSALE_CPU": str(number)}


class Instance(App):
    """One instance of the shop under gunicorn; ready when it reaches etcd and Redis, even if they lost the sale."""

    def __init__(self, directory: Path, port: int = 0, *, env: Mapping[str, str]) -> None:
        port = port or free_port()
        name = f"instance-{port}"
        settings = {"FLASHSALE_HOST": LOOPBACK, "FLASHSALE_PORT": str(port), "FLASHSALE_INSTANCE": name}
        super().__init__(name, directory, port, {**settings, **env})

    def command(self) -> list[str]:
        return [sys.executable, "-m", "gunicorn", "-c", str(REPOSITORY / "app/gunicorn.conf.py"), "app:create_app()"]

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=PROBE_TIMEOUT_S) as response:
                return bool(response.status == 200)
        except urllib.error.HTTPError as response:
            states = json.load(response)
            return bool(states.get("etcd") == states.get("redis") == "ok")  # a lost sale waits for a reset
        except OSError:
            return False


class Board(App):
    """The page that shows the sale. `env` tells it what to watch."""

    def __init__(self, directory: Path, port: int = 0, *, env: Mapping[str, str]) -> None:
        port = port or free_port()
        settings = {"FLASHSALE_BOARD_HOST": LOOPBACK, "FLASHSALE_BOARD_PORT": str(port)}
        super().__init__("board", directory, port, {**settings, **env})

    def command(self) -> list[str]:
        return [sys.executable, "-m", "gunicorn", "-c", str(REPOSITORY / "app/board/gunicorn.conf.py"), _BOARD]


class LocustPage(App):
    """Locust with its page; `env` tells the buyers where the sale is."""

    probe = "/"

    def __init__(self, directory: Path, port: int = 0, *, env: Mapping[str, str]) -> None:
        super().__init__("locust", directory, port, env)

    def command(self) -> list[str]:
        page = ["--headful", "--web-port", str(self.port), "--config", str(REPOSITORY / "pyproject.toml")]
        return [sys.executable, "-m", "locust", *page, "--locustfile", str(REPOSITORY / "loadtest/locustfile.py")]
