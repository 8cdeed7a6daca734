"""The settings of an instance: the environment as one validated, frozen value."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator

from app.config import environment as env
from app.config.environment import EnvironmentSettings, SettingsError
from app.contract.credentials import with_password
from app.contract.keys import queue_name

__all__ = ["MOST_ITEMS", "Settings", "SettingsError"]

MOST_ITEMS = 1_000_000
MOST_KINDS = 1000
EVERY_ADDRESS = ("0.0.0.0", "::")  # the same text on every machine, so it cannot name an instance


def _own_name(read: dict[str, Any]) -> str:
    home = socket.gethostname() if read["host"] in EVERY_ADDRESS else read["host"]
    return f"{home}:{read['port']}"[-64:]


class Settings(EnvironmentSettings):
    """The settings of one instance of the shop.

    Attributes:
        etcd_ca: PEM file of the authority that signed etcd's certificate; `None`: no TLS.
        etcd_cert: PEM file of the shop's certificate for etcd; needs `etcd_key`.
        redis_url: includes `redis_password`, if there is one.
        instance: the name in every answer and log line; by default host and port, or the machine's name and the port if
            the instance listens on all addresses.
        names: host names of the shop, besides ``localhost`` and plain addresses.
        lease_ttl: seconds until etcd frees the lock of an instance that died; also the expiry of a lock in Redis.
        lock_timeout: seconds a purchase waits for its turn before the answer is ``lock_timeout``.
        items: number of different items, each with its own stock, ledger and lock.
        cpu: which of the usable CPUs the instance runs on, counted from 0, modulo their number; `None`: on all of them.
        section_log: directory of the section log, see `app.contract.section_log`.
        threads: requests that the instance runs at once; its pool has a Redis connection for each.
    """

    etcd_endpoints: env.Endpoints = "127.0.0.1:2379"
    etcd_ca: env.Authority | None = None
    etcd_cert: str | None = None
    etcd_key: str | None = None
    etcd_user: str | None = None
    etcd_password_file: env.SecretFile | None = None
    etcd_password: SecretStr | None = Field(default_factory=lambda read: read["etcd_password_file"])
    redis_password_file: env.SecretFile | None = None
    redis_password: SecretStr | None = Field(default_factory=lambda read: read["redis_password_file"])
    redis_url: env.RedisUrl = Field(default="redis://127.0.0.1:6379/0", repr=False)
    host: env.Address = "127.0.0.1"
    port: int = Field(default=8080, ge=1, le=65535)
    names: env.HostNames = ()
    instance: env.Label = Field(default_factory=_own_name)
    sale: env.Identifier = "demo"
    stock: int = Field(default=300, ge=0, le=MOST_ITEMS)
    lease_ttl: int = Field(default=10, ge=1, le=3600)
    lock_timeout: float = Field(default=10.0, ge=0.1, le=3600)
    admin_token_file: env.SecretFile | None = None
    admin_token: SecretStr | None = Field(default_factory=lambda read: read["admin_token_file"])
    threads: int = Field(default=256, ge=1, le=1024)
    cpu: int | None = Field(default=None, ge=0)
    items: int = Field(default=1, ge=1, le=MOST_KINDS)
    section_log: Path | None = None

    @property
    def queue_name(self) -> str:
        """The name in etcd below which the mutexes of the sale have their queues."""
        return queue_name(self.sale)

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the instance."""
        return env.is_loopback(self.host)

    @property
    def authorization(self) -> dict[str, str]:
        """The header that authorizes a reset; empty if no token is set."""
        return {"Authorization": f"Bearer {self.admin_token.get_secret_value()}"} if self.admin_token else {}

    @field_validator("redis_url")
    @classmethod
    def _with_password(cls, url: str, read: ValidationInfo) -> str:
        password = read.data.get("redis_password")
        return with_password(url, password.get_secret_value()) if password else url

    @model_validator(mode="after")
    def _check_etcd(self) -> Settings:
        """Refuse incomplete settings of TLS or login, which would fail later, with a message of gRPC."""
        if ("https://" in self.etcd_endpoints or self.etcd_cert) and not self.etcd_ca:
            raise ValueError("FLASHSALE_ETCD_CA: give the PEM file of the authority that signed etcd's certificate")
        for one, other in (("ETCD_CERT", "ETCD_KEY"), ("ETCD_USER", "ETCD_PASSWORD")):
            if bool(getattr(self, one.lower())) != bool(getattr(self, other.lower())):
                raise ValueError(f"FLASHSALE_{one} and FLASHSALE_{other}: only one is set, set both or neither")
        if self.etcd_cert and self.etcd_key:
            try:
                env.check_pair(self.etcd_cert, self.etcd_key)
            except ValueError as problem:
                raise ValueError(f"FLASHSALE_ETCD_CERT and FLASHSALE_ETCD_KEY: {problem}") from problem
        return self
