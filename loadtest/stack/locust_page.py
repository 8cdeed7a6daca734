"""Locust with its page, as a process beside the local stack; the board asks it for a rush."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from loadtest.stack.ports import LOOPBACK
from loadtest.stack.process import Process
from loadtest.stack.servers import answers_ok

_REPOSITORY = Path(__file__).resolve().parents[2]


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
            str(_REPOSITORY / "pyproject.toml"),
            "--locustfile",
            str(_REPOSITORY / "loadtest/locustfile.py"),
        ]
        return [sys.executable, "-m", "locust", "--headful", "--web-port", str(self.port), *files]

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "PYTHONPATH": str(_REPOSITORY), "PYTHONUNBUFFERED": "1", **self._env}

    def is_ready(self) -> bool:
        return answers_ok(f"{self.url}/")
