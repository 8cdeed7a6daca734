"""The settings of an instance: the environment as one validated, frozen value."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.config.environment import (
    Reader,
    SettingsError,
    address,
    choice,
    endpoints,
    host_names,
    identifier,
    is_loopback,
    label,
    redis_url,
    seconds,
    secret_file,
    whole,
)

__all__ = ["MOST_ITEMS", "Settings", "SettingsError"]

MOST_ITEMS = 1_000_000
MOST_KINDS = 1000
MOST_SHARDS = 64
EVERY_ADDRESS = ("0.0.0.0", "::")  # where instances of several machines may listen alike


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one instance of the shop.

    Attributes:
        instance: the name in every answer and log line; by default host and port, or the machine's name and the port if
            it listens on all addresses.
        names: host names of the shop, besides ``localhost`` and plain addresses.
        lease_ttl: seconds until etcd frees the lock of an instance that died; also the life of a Redis lock.
        lock_timeout: seconds a purchase waits for its turn before the answer is ``lock_timeout``.
        items: number of different items, each with its own stock, ledger and lock.
        shards: parts that `etcd-sharded` divides the stock of an item into; the same on all instances.
        section_log: directory of the section log, see `app.telemetry.section_log`.
        opener: "fenced" if the leader that opens the sale sends its token, so that Redis refuses a late leader.
        threads: purchases that one worker process has in hand at once; also the size of its Redis connection pool.
        queue: requests that one worker process has in hand or waiting from which on purchases are answered ``busy``.
    """

    etcd_endpoints: str = "127.0.0.1:2379"
    redis_url: str = field(default="redis://127.0.0.1:6379/0", repr=False)
    host: str = "127.0.0.1"
    port: int = 8080
    names: tuple[str, ...] = ()
    instance: str = "127.0.0.1:8080"
    sale: str = "demo"
    stock: int = 300
    lease_ttl: int = 10
    lock_timeout: float = 10.0
    admin_token: str | None = field(default=None, repr=False)
    threads: int = 256
    queue: int = 2500
    workers: int = 1
    items: int = 1
    shards: int = 4
    section_log: Path | None = None
    opener: str = "fenced"

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the instance."""
        return is_loopback(self.host)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Read ``FLASHSALE_*``; a variable that is unset or empty has its default.

        Raises:
            SettingsError: at least one variable cannot be used.
        """
        read = Reader(environment)
        host = read("HOST", address, cls.host)
        port = read("PORT", whole(1, 65535), cls.port)
        home = socket.gethostname() if host in EVERY_ADDRESS else host
        settings = cls(
            etcd_endpoints=read("ETCD_ENDPOINTS", endpoints, cls.etcd_endpoints),
            redis_url=read("REDIS_URL", redis_url, cls.redis_url),
            host=host,
            port=port,
            names=read("NAMES", host_names, ()),
            instance=read("INSTANCE", label, f"{home}:{port}"[-64:]),
            sale=read("SALE", identifier, cls.sale),
            stock=read("STOCK", whole(0, MOST_ITEMS), cls.stock),
            lease_ttl=read("LEASE_TTL", whole(1, 3600), cls.lease_ttl),
            lock_timeout=read("LOCK_TIMEOUT", seconds, cls.lock_timeout),
            admin_token=read("ADMIN_TOKEN", str, None) or read("ADMIN_TOKEN_FILE", secret_file, None),
            threads=read("THREADS", whole(1, 1024), cls.threads),
            queue=read("QUEUE", whole(1, MOST_ITEMS), cls.queue),
            workers=read("WORKERS", whole(1, 64), cls.workers),
            items=read("ITEMS", whole(1, MOST_KINDS), cls.items),
            shards=read("SHARDS", whole(1, MOST_SHARDS), cls.shards),
            section_log=read("SECTION_LOG", Path, None),
            opener=read("OPENER", choice("fenced", "unfenced"), cls.opener),
        )
        read.raise_problems()
        return settings
