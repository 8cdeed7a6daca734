"""The testbed of containers: the stack of docker-compose.yml, in which Docker kills, freezes and starts.

It is its own project on its own ports, so a stack that is in use is left alone.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from loadtest import REPOSITORY
from loadtest.faults.testbed.protocols import LOCK_TIMEOUT_S, THREADS, TTL_S, Shop
from loadtest.stack import guardian
from loadtest.stack.ports import LOOPBACK, free_port
from loadtest.stack.process import Lifetime, ServerError
from loadtest.stack.servers import answers_ok, redis_answers
from loadtest.target.sale import COMPOSE_TOKEN

_FILES = ("docker-compose.yml", "docker-compose.faults.yml")
_SERVICES = ("etcd", "redis", "instance-8080", "instance-8090")
_UP_TIMEOUT_S = 600.0  # with images to be built
_TIMEOUT_S = 30.0
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
            _docker("start", self.id)
            self.running = True

    def wait_ready(self) -> None:
        """Raises ServerError."""
        deadline = time.monotonic() + _TIMEOUT_S
        while not self._is_ready():
            if time.monotonic() > deadline:
                raise ServerError(f"container {self.name} was not ready within {_TIMEOUT_S:g} s")
            time.sleep(_POLL_S)

    def start(self) -> None:
        """Launch and wait until ready; raises ServerError."""
        self.launch()
        self.wait_ready()

    def kill(self) -> None:
        """SIGKILL to all that runs in it; raises ServerError."""
        if self.running:
            _docker("kill", self.id)
            self.running = self.frozen = False

    def pause(self) -> None:
        """Freeze all that runs in it; raises ServerError."""
        deadline = time.monotonic() + _FREEZE_S
        while not self.frozen:
            try:
                _docker("pause", self.id)
                self.frozen = True
            except ServerError:  # runc gives up soon where many threads are busy: "unable to freeze"
                if time.monotonic() > deadline:
                    raise

    def resume(self) -> None:
        """Thaw it if it is frozen; raises ServerError."""
        if self.frozen:
            _docker("unpause", self.id)
            self.frozen = False


class EtcdContainer(Container):
    """The only member of etcd, which is all of it."""

    def __init__(self) -> None:
        port = free_port()
        self.endpoint = self.endpoints = f"{LOOPBACK}:{port}"
        super().__init__("etcd", port, lambda: answers_ok(f"http://{self.endpoint}/health"))

    @property
    def members(self) -> list[EtcdContainer]:
        return [self]

    def stop(self) -> None:
        """As EtcdCluster does it."""
        self.kill()


class RedisContainer(Container):
    """Redis."""

    def __init__(self) -> None:
        port = free_port()
        self.url = f"redis://{LOOPBACK}:{port}/0"
        super().__init__("redis", port, lambda: redis_answers(self.url))

    @property
    def members(self) -> list[RedisContainer]:
        return [self]


class ComposeTestbed(Lifetime):
    """The stack of docker-compose.yml, without lines that could be cut.

    Args:
        directory: for the section log.
        ttl_s: how long a lease lives.
    """

    def __init__(self, directory: Path, *, ttl_s: int = TTL_S) -> None:
        self.section_log = directory / "section-log"
        self.ttl_s = ttl_s
        self.etcd = EtcdContainer()
        self.redis = RedisContainer()
        self.shops = [_shop("shop-a", "instance-8080"), _shop("shop-b", "instance-8090")]
        self._project = f"stock-flash-sale-faults-{os.getpid()}"
        instances = [shop.instance for shop in self.shops]
        self._containers = [each for each in (self.etcd, self.redis, *instances) if isinstance(each, Container)]

    def heal(self) -> None:
        """Undo every fault: thaw what is frozen, start what is dead; raises ServerError."""
        for container in self._containers:
            container.resume()
            container.launch()
        for container in self._containers:
            container.wait_ready()

    def start(self) -> None:
        """Build and start everything; raises ServerError."""
        self.section_log.mkdir()
        self.section_log.chmod(0o777)  # the shops are another user in there
        guardian.watch("project", self._project)
        self._compose("up", "--detach", "--build", "--wait", "--quiet-pull", *_SERVICES, timeout=_UP_TIMEOUT_S)
        for container in self._containers:
            container.id = self._compose("ps", "--all", "--quiet", container.name).strip()
        self.heal()

    def stop(self) -> None:
        """Remove everything, frozen or not: nothing in there is to be kept."""
        guardian.remove_project(self._project)
        guardian.forget("project", self._project)

    def _compose(self, *words: str, timeout: float = _TIMEOUT_S) -> str:
        ports = [container.port for container in self._containers]
        env = dict(zip(("ETCD_PORT", "REDIS_PORT", "FAULTS_PORT_A", "FAULTS_PORT_B"), map(str, ports), strict=True))
        env |= {
            "FLASHSALE_ADMIN_TOKEN": COMPOSE_TOKEN,
            "FAULTS_SECTION_LOG": str(self.section_log),
            "FAULTS_LEASE_TTL": str(self.ttl_s),
            "FAULTS_LOCK_TIMEOUT": str(LOCK_TIMEOUT_S),
            "FAULTS_THREADS": str(THREADS),
        }
        files = [word for file in _FILES for word in ("--file", str(REPOSITORY / file))]
        return _docker("compose", "--project-name", self._project, *files, *words, env=env, timeout=timeout)


def _shop(name: str, service: str) -> Shop:
    port = free_port()
    url = f"http://{LOOPBACK}:{port}"
    return Shop(name, url, Container(service, port, lambda: answers_ok(f"{url}/readyz")))


def _docker(*words: str, env: dict[str, str] | None = None, timeout: float = _TIMEOUT_S) -> str:
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
