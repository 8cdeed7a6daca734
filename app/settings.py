"""The environment (``FLASHSALE_*``) as one validated, frozen value.

Error handling: whatever is wrong with the environment is collected and raised at once, as a `SettingsError` whose
message says for each variable what was given and what to give instead.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl, urlsplit

MOST_ITEMS = 1_000_000

T = TypeVar("T")
D = TypeVar("D")


class SettingsError(ValueError):
    """Variables of the environment that cannot be used; one line for each."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How one instance of the shop is set up.

    Attributes:
        instance: the name in every answer and log line.
        lease_ttl: seconds until etcd frees the lock of an instance that died; also the life of a Redis lock.
        lock_timeout: seconds a purchase waits for its turn before the answer is ``lock_timeout``.
        evidence: directory in which each critical section is recorded, see `app.evidence`; nothing is if None.
        threads: purchases that one worker process has in hand at once; also the size of its Redis connection pool.
    """

    etcd_endpoints: str = "127.0.0.1:2379"
    redis_url: str = field(default="redis://127.0.0.1:6379/0", repr=False)
    host: str = "127.0.0.1"
    port: int = 8080
    instance: str = "127.0.0.1:8080"
    sale: str = "demo"
    stock: int = 300
    lease_ttl: int = 10
    lock_timeout: float = 10.0
    admin_token: str | None = field(default=None, repr=False)
    threads: int = 64
    workers: int = 1
    evidence: Path | None = None

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the instance."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """The settings that ``FLASHSALE_*`` describes; a variable that is unset or empty has its default.

        Raises:
            SettingsError: at least one variable cannot be used.
        """
        read = _Reader(environment)
        host = read("HOST", _host, cls.host)
        port = read("PORT", _whole(1, 65535), cls.port)
        settings = cls(
            etcd_endpoints=read("ETCD_ENDPOINTS", _endpoints, cls.etcd_endpoints),
            redis_url=read("REDIS_URL", _redis_url, cls.redis_url),
            host=host,
            port=port,
            instance=read("INSTANCE", _name, f"{host}:{port}"),
            sale=read("SALE", _sale, cls.sale),
            stock=read("STOCK", _whole(0, MOST_ITEMS), cls.stock),
            lease_ttl=read("LEASE_TTL", _whole(1, 3600), cls.lease_ttl),
            lock_timeout=read("LOCK_TIMEOUT", _seconds, cls.lock_timeout),
            admin_token=read("ADMIN_TOKEN", str, None),
            threads=read("THREADS", _whole(1, 1024), cls.threads),
            workers=read("WORKERS", _whole(1, 64), cls.workers),
            evidence=read("EVIDENCE", Path, None),
        )
        read.raise_problems()
        return settings


class _Reader:
    """Reads one variable after the other and remembers what is wrong with them."""

    SECRET = frozenset({"REDIS_URL", "ADMIN_TOKEN"})

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._problems: list[str] = []

    def __call__(self, name: str, parse: Callable[[str], T], default: D) -> T | D:
        text = self._environment.get(f"FLASHSALE_{name}", "").strip()
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as problem:
            shown = "(not shown)" if name in self.SECRET else repr(text)
            self._problems.append(f"FLASHSALE_{name} is {shown}: {problem}")
            return default

    def raise_problems(self) -> None:
        if self._problems:
            raise SettingsError("\n".join(self._problems))


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
            raise ValueError(f"give a whole number from {least} to {most}")
        return int(text)

    return parse


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,6})?", text) or not 0.1 <= float(text) <= 3600:
        raise ValueError("give seconds from 0.1 to 3600, such as 10 or 2.5")
    return float(text)


def _host(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._:-]+", text):
        raise ValueError("give the address to listen on, such as 127.0.0.1 or 0.0.0.0, without scheme and port")
    return text


def _name(text: str) -> str:
    if len(text) > 64 or not text.isprintable():
        raise ValueError("give a name of at most 64 printable characters, such as shop-a")
    return text


def _sale(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", text):
        raise ValueError("give at most 64 letters, digits, dots, dashes and underscores, such as demo")
    return text


def _endpoints(text: str) -> str:
    for endpoint in text.split(","):
        if not re.fullmatch(r"\s*(https?://)?[^\s/]+:[0-9]{1,5}/?\s*", endpoint):
            raise ValueError("give HOST:PORT, or several separated by commas, such as 127.0.0.1:2379")
    return text


def _redis_url(text: str) -> str:
    url = urlsplit(text)
    if url.scheme not in ("redis", "rediss", "unix"):
        raise ValueError("give a URL such as redis://127.0.0.1:6379/0")
    # redis-py lets the query overrule the caller, and a retry it adds could sell one item twice.
    for option, _ in parse_qsl(url.query, keep_blank_values=True):
        if not option.startswith("ssl_"):
            raise ValueError(f"leave out '{option}=': deadlines and retries are fixed, only ssl_* options are taken")
    return text
