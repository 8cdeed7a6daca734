"""The containers of a testbed, which Docker kills, freezes and starts."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable

from loadtest.stack.ports import LOOPBACK, free_port
from loadtest.stack.process import ServerError
from loadtest.stack.servers import answers_ok, redis_answers

TIMEOUT_S = 30.0
_FREEZE_S = 5.0
_POLL_S = 0.05


class Container:
    """One service of the project; ready when `is_ready` says so."""

    def __init__(self, name: str, port: int, is_ready: Callable[[], bool]) -> None:
        self.name = name
        self.port = port
        self.frozen = False
        self.running = True
        self.id = ""
        self._is_ready = is_ready

    def launch(self) -> None:
        """Start it, unless it runs; raises ServerError."""
        if not self.running:
            docker("start", self.id)
            self.running = True

    def wait_ready(self) -> None:
        """Raises ServerError."""
        deadline = time.monotonic() + TIMEOUT_S
        while not self._is_ready():
            if time.monotonic() > deadline:
                raise ServerError(f"container {self.name} was not ready within {TIMEOUT_S:g} s")
            time.sleep(_POLL_S)

    def start(self) -> None:
        """Launch and wait until ready; raises ServerError."""
        self.launch()
        self.wait_ready()

    def kill(self) -> None:
        """SIGKILL to all that runs in it; raises ServerError."""
        if self.running:
            docker("kill", self.id)
            self.running = self.frozen = False

    def pause(self) -> None:
        """Freeze all that runs in it; raises ServerError."""
        deadline = time.monotonic() + _FREEZE_S
        while not self.frozen:
            try:
                docker("pause", self.id)
                self.frozen = True
            except ServerError:  # runc gives up soon where many threads are busy: "unable to freeze"
                if time.monotonic() > deadline:
                    raise

    def resume(self) -> None:
        """Thaw it if it is frozen; raises ServerError."""
        if self.frozen:
            docker("unpause", self.id)
            self.frozen = False


class EtcdContainer(Container):
    """The only member of etcd, which is all of it."""

    def __init__(self) -> None:
        port = free_port()
        self.endpoint = self.endpoints = f"{LOOPBACK}:{port}"
        super().__init__("etcd", port, lambda: answers_ok(f"http://{self.endpoint}/health"))
        self.members = [self]

    def stop(self) -> None:
        self.kill()


class RedisContainer(Container):
    """Redis."""

    def __init__(self) -> None:
        port = free_port()
        self.url = f"redis://{LOOPBACK}:{port}/0"
        super().__init__("redis", port, lambda: redis_answers(self.url))
        self.members = [self]


def docker(*words: str, env: dict[str, str] | None = None, timeout: float = TIMEOUT_S) -> str:
    """What a docker command prints; raises ServerError with its last line, if it fails."""
    try:
        done = subprocess.run(
            ["docker", *words], env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=timeout
        )
    except FileNotFoundError:
        raise ServerError("there is no docker command here; only --compose needs it") from None
    except subprocess.TimeoutExpired:
        raise ServerError(f"docker {words[0]} did not end within {timeout:g} s") from None
    if done.returncode:
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it said nothing")
        raise ServerError(f"docker {words[0]} failed: {last}")
    return done.stdout
