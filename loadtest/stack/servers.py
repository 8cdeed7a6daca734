"""etcd and Redis as local processes on loopback, with production's settings, and their data in a directory."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import redis

from loadtest.ports import LOOPBACK, free_port
from loadtest.stack import binaries
from loadtest.stack.process import ManagedProcess, Resource

PROBE_TIMEOUT_S = 1.0


def answers_ok(url: str) -> bool:
    """Whether GET `url` answers 200 within a second."""
    try:
        with urllib.request.urlopen(url, timeout=PROBE_TIMEOUT_S) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def redis_answers(url: str) -> bool:
    """Whether the Redis at `url` answers within a second."""
    limits = {"socket_timeout": PROBE_TIMEOUT_S, "socket_connect_timeout": PROBE_TIMEOUT_S}
    with suppress(redis.RedisError), redis.Redis.from_url(url, **limits) as client:
        return bool(client.ping())
    return False


class Etcd(ManagedProcess):
    """One etcd member. Ready means that it has a leader; a restart keeps data, ports and leases."""

    def __init__(self, directory: Path, port: int = 0, *, name: str = "etcd") -> None:
        super().__init__(name, directory, port=port)
        self._peer_url = f"http://{LOOPBACK}:{free_port()}"
        self.cluster = f"{self.name}={self._peer_url}"  # its peers, from the first start on

    @property
    def endpoint(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def command(self) -> list[str]:
        client_url = f"http://{self.endpoint}"
        flags = {
            "name": self.name,
            "data-dir": str(self.directory / self.name),
            "listen-client-urls": client_url,
            "advertise-client-urls": client_url,
            "listen-peer-urls": self._peer_url,
            "initial-advertise-peer-urls": self._peer_url,
            "initial-cluster": self.cluster,
            "auto-compaction-mode": "periodic",
            "auto-compaction-retention": "10m",
            "log-level": "error",
        }
        return [str(binaries.etcd()), *(f"--{flag}={value}" for flag, value in flags.items())]

    def environment(self) -> Mapping[str, str]:
        # etcd reads every flag from ETCD_* too, those meant for another etcd included.
        return {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}

    def is_ready(self) -> bool:
        return answers_ok(f"http://{self.endpoint}/health")


class EtcdCluster(Resource):
    """Several etcd members that form one cluster, each on its own ports."""

    def __init__(self, directory: Path, *, size: int = 3) -> None:
        self.members = [Etcd(directory, name=f"etcd-{number}") for number in range(1, size + 1)]
        cluster = ",".join(member.cluster for member in self.members)
        for member in self.members:
            member.cluster = cluster

    @property
    def endpoints(self) -> str:
        """Comma-separated, as `lock.connect` takes them."""
        return ",".join(member.endpoint for member in self.members)

    def start(self) -> None:
        """Start all members and wait until each is ready; raises ServerError."""
        for member in self.members:
            member.launch()
        for member in self.members:
            member.wait_ready()

    def stop(self) -> None:
        """Kill all members: asked to end, each would spend seconds on handing over to another that ends too."""
        for member in self.members:
            member.kill()


class Redis(ManagedProcess):
    """One Redis (or Valkey). A clean restart keeps data and port; after a kill only `appendonly` has kept the data.

    With `appendonly` every write is on disk before it is acknowledged (appendfsync always).
    """

    def __init__(self, directory: Path, port: int = 0, *, appendonly: bool = False, name: str = "redis") -> None:
        super().__init__(name, directory, port=port)
        self.appendonly = appendonly

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    def flags(self) -> dict[str, str]:
        return {
            "bind": LOOPBACK,
            "port": str(self.port),
            "dir": str(self.directory / self.name),
            "save": "86400 1",  # in effect: only at a clean stop
            "appendonly": "yes" if self.appendonly else "no",
            "appendfsync": "always",
        }

    def command(self) -> list[str]:
        (self.directory / self.name).mkdir(parents=True, exist_ok=True)
        flags = self.flags().items()
        return [str(binaries.redis()), *(word for flag, value in flags for word in (f"--{flag}", value))]

    def is_ready(self) -> bool:
        return redis_answers(self.url)
