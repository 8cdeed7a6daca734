"""The settings of an instance: the environment as one validated, frozen value."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from app.config import environment as env
from app.config.environment import Reader, SettingsError, variable, whole
from app.contract.keys import queue_name

__all__ = ["MOST_ITEMS", "Settings", "SettingsError"]

MOST_ITEMS = 1_000_000
MOST_KINDS = 1000
MOST_SHARDS = 64
MOST_REPLICAS = 5
EVERY_ADDRESS = ("0.0.0.0", "::")  # where instances of several machines may listen alike


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one instance of the shop.

    Attributes:
        redis_replicas: that must have a purchase before it is answered; else it is in doubt.
        instance: the name in every answer and log line; by default host and port, or the machine's name and the port if
            it listens on all addresses.
        names: host names of the shop, besides ``localhost`` and plain addresses.
        lease_ttl: seconds until etcd frees the lock of an instance that died; also the life of a Redis lock.
        lock_timeout: seconds a purchase waits for its turn before the answer is ``lock_timeout``.
        items: number of different items, each with its own stock, ledger and lock.
        shards: parts that `etcd-sharded` divides the stock of an item into; the same on all instances.
        section_log: directory of the section log, see `app.contract.section_log`.
        threads: purchases that one worker process has in hand at once; also the size of its Redis connection pool.
        queue: requests that one worker process has in hand or waiting from which on purchases are answered ``busy``.
    """

    etcd_endpoints: str = variable(env.endpoints, "127.0.0.1:2379")
    redis_url: str = variable(env.redis_url, "redis://127.0.0.1:6379/0", is_secret=True)
    redis_replicas: int = variable(whole(0, MOST_REPLICAS), 0)
    host: str = variable(env.address, "127.0.0.1")
    port: int = variable(whole(1, 65535), 8080)
    names: tuple[str, ...] = variable(env.host_names, ())
    instance: str = variable(env.label, "127.0.0.1:8080")
    sale: str = variable(env.identifier, "demo")
    stock: int = variable(whole(0, MOST_ITEMS), 300)
    lease_ttl: int = variable(whole(1, 3600), 10)
    lock_timeout: float = variable(env.seconds, 10.0)
    admin_token: str | None = variable(str, None, is_secret=True)
    threads: int = variable(whole(1, 1024), 256)
    queue: int = variable(whole(1, MOST_ITEMS), 3000)
    workers: int = variable(whole(1, 64), 1)
    items: int = variable(whole(1, MOST_KINDS), 1)
    shards: int = variable(whole(1, MOST_SHARDS), 4)
    section_log: Path | None = variable(Path, None)  # noqa: RUF009

    @property
    def queue_name(self) -> str:
        """The name in etcd below which the mutexes of the sale have their queues."""
        return queue_name(self.sale)

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the instance."""
        return env.is_loopback(self.host)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Read ``FLASHSALE_*``; a variable that is unset or empty has its default.

        Raises:
            SettingsError: at least one variable cannot be used.
        """
        read = Reader(environment)
        settings = cls(**{each.name: read.field(each) for each in fields(cls)})
        home = socket.gethostname() if settings.host in EVERY_ADDRESS else settings.host
        settings = replace(
            settings,
            instance=read("INSTANCE", env.label, f"{home}:{settings.port}"[-64:]),
            admin_token=settings.admin_token or read("ADMIN_TOKEN_FILE", env.secret_file, None),
        )
        read.raise_problems()
        return settings
