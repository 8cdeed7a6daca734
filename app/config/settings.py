"""The settings of an instance: the environment as one validated, frozen value."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from app.config import environment as env
from app.config.environment import Reader, SettingsError, variable, whole
from app.contract.credentials import with_password
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
        etcd_ca: PEM file of the authority that signed etcd's certificate; None: etcd is spoken to in plain text.
        etcd_cert: PEM file of the shop's own certificate for etcd, together with `etcd_key`.
        redis_url: with the password, wherever that came from.
        redis_replicas: that must have a purchase before it is answered; else it is in doubt.
        instance: the name in every answer and log line; by default host and port, or the machine's name and the port if
            it listens on all addresses.
        names: host names of the shop, besides ``localhost`` and plain addresses.
        lease_ttl: seconds until etcd frees the lock of an instance that died; also the life of a Redis lock.
        lock_timeout: seconds a purchase waits for its turn before the answer is ``lock_timeout``.
        items: number of different items, each with its own stock, ledger and lock.
        shards: parts that `etcd-sharded` divides the stock of an item into; the same on all instances.
        section_log: directory of the section log, see `app.contract.section_log`.
        threads: purchases that the instance has in hand at once; also the size of its Redis connection pool.
        queue: requests that it has in hand or waiting from which on purchases are answered ``busy``.
    """

    etcd_endpoints: str = variable(env.endpoints, "127.0.0.1:2379")
    etcd_ca: str | None = variable(env.authority, None)
    etcd_cert: str | None = variable(str, None)
    etcd_key: str | None = variable(str, None)
    etcd_user: str | None = variable(str, None)
    etcd_password: str | None = variable(str, None, is_secret=True)
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
            admin_token=read.secret("ADMIN_TOKEN"),
            etcd_password=read.secret("ETCD_PASSWORD"),
            redis_url=_with_password(settings.redis_url, read),
        )
        _check_etcd(settings, read)
        read.raise_problems()
        return settings


def _with_password(url: str, read: Reader) -> str:
    try:
        password = read.secret("REDIS_PASSWORD")
        return with_password(url, password) if password else url
    except ValueError as problem:
        read.problem("REDIS_URL", str(problem))
        return url


def _check_etcd(settings: Settings, read: Reader) -> None:
    """Note what is missing for TLS or the login; half of it would fail later, with the words of gRPC."""
    uses_tls = "https://" in settings.etcd_endpoints or settings.etcd_cert
    if uses_tls and not settings.etcd_ca:
        read.problem("ETCD_CA", "is not set: give the PEM file of the authority that signed etcd's certificate")
    pairs = ("etcd_cert", "etcd_key"), ("etcd_user", "etcd_password")
    for one, other in (*pairs, *((other, one) for one, other in pairs)):
        if getattr(settings, one) and not getattr(settings, other):
            read.problem(other.upper(), f"is not set, but FLASHSALE_{one.upper()} is: set both or neither")
    if settings.etcd_cert and settings.etcd_key:
        try:
            env.check_pair(settings.etcd_cert, settings.etcd_key)
        except ValueError as problem:
            read.problem("ETCD_CERT", f"and FLASHSALE_ETCD_KEY: {problem}")
