"""The testbed of containers: the stack of docker-compose.yml, in which Docker kills, freezes and starts.

It is its own project on its own ports, so a stack that is in use is left alone.
"""

from __future__ import annotations

import os
from pathlib import Path

from loadtest import REPOSITORY
from loadtest.faults.testbed.containers import TIMEOUT_S, Container, EtcdContainer, RedisContainer, docker
from loadtest.faults.testbed.shop import LOCK_TIMEOUT_S, THREADS, Setup, Shop
from loadtest.stack import guardian
from loadtest.stack.ports import LOOPBACK, free_port
from loadtest.stack.process import Lifetime
from loadtest.stack.servers import answers_ok
from loadtest.target.sale import COMPOSE_TOKEN

_FILES = ("docker-compose.yml", "docker-compose.faults.yml")
_SERVICES = ("etcd", "redis", "instance-8080", "instance-8090")
_UP_TIMEOUT_S = 600.0  # with images to be built


class ComposeTestbed(Lifetime):
    """The stack of docker-compose.yml, with its section log in `directory`; of `setup`, only the TTL is used."""

    def __init__(self, directory: Path, setup: Setup) -> None:
        self.section_log = directory / "section-log"
        self.setup = setup
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

    def _compose(self, *words: str, timeout: float = TIMEOUT_S) -> str:
        ports = [container.port for container in self._containers]
        env = dict(zip(("ETCD_PORT", "REDIS_PORT", "FAULTS_PORT_A", "FAULTS_PORT_B"), map(str, ports), strict=True))
        env |= {
            "FLASHSALE_ADMIN_TOKEN": COMPOSE_TOKEN,
            "FAULTS_SECTION_LOG": str(self.section_log),
            "FAULTS_LEASE_TTL": str(self.setup.ttl_s),
            "FAULTS_LOCK_TIMEOUT": str(LOCK_TIMEOUT_S),
            "FAULTS_THREADS": str(THREADS),
        }
        files = [word for file in _FILES for word in ("--file", str(REPOSITORY / file))]
        return docker("compose", "--project-name", self._project, *files, *words, env=env, timeout=timeout)


def _shop(name: str, service: str) -> Shop:
    port = free_port()
    url = f"http://{LOOPBACK}:{port}"
    return Shop(name, url, Container(service, port, lambda: answers_ok(f"{url}/readyz")))
