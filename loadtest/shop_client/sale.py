"""The sale as the rush sees it: the shop over HTTP, and the ledger straight from Redis.

The ledger is read from Redis, not from the instances, so that the shop is not a witness in its own case.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import platform
import urllib.request
from collections.abc import Container, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from app.contract.credentials import read_secret, with_password
from app.contract.keys import queue_name
from app.contract.orders import Order
from loadtest.results.record import Sample
from loadtest.shop_client.ledger import UNREADABLE, Ledger, SaleReading
from loadtest.shop_client.shops import TIMEOUT_S, UNANSWERED, SaleError, Shops, get_json

COMPOSE_TOKEN = "workshop"  # docker-compose.yml's; instances on loopback ask for none
PACKAGES = ("flask", "gunicorn", "redis", "etcd3", "grpcio", "protobuf", "locust")


class SaleClient:
    """One sale behind several instances.

    Args:
        hosts: base URLs of the instances; the first that answers resets the sale.
        redis_url: where its ledger is.
        etcd: HOST:PORT of an etcd member, for its version and for the waiters of a queue.
        name: its id.
        admin_token, trusted: as `Shops` takes them.

    Attributes:
        shops: the instances.
        generation: of the sale to be judged, set by `reset`; None: the current one when the ledger is read.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        redis_url: str,
        etcd: str,
        name: str,
        admin_token: str = "",
        trusted: Container[str] | None = None,
    ) -> None:
        self.shops = Shops(hosts, admin_token=admin_token, trusted=trusted)
        self._etcd = etcd
        self._ledger = Ledger(redis_url, name, timeout=TIMEOUT_S)
        self._queue = f"{queue_name(name)}/".encode()
        self.generation: str | None = None

    @classmethod
    def from_environment(cls, hosts: Sequence[str], *, trusted: Container[str]) -> SaleClient:
        """The sale that ``FLASHSALE_*`` describes, with the shop's defaults."""
        return cls(
            hosts,
            redis_url=_redis_url(),
            etcd=(os.environ.get("FLASHSALE_ETCD_ENDPOINTS") or "127.0.0.1:2379").split(",")[0].split("//")[-1],
            name=os.environ.get("FLASHSALE_SALE") or "demo",
            admin_token=_secret("ADMIN_TOKEN") or COMPOSE_TOKEN,
            trusted=trusted,
        )

    def close(self) -> None:
        self._ledger.close()

    def reset(self, stock: int) -> None:
        """Begin again with `stock` items and an empty ledger; raises SaleError."""
        self.shops.reset(stock)
        self.generation = self._read().generation

    def ledger(self) -> tuple[list[Order], int]:
        """The orders as they were written, and how many items are left by the counter.

        Raises:
            SaleError: they cannot be read, or the sale was reset again since `reset`.
        """
        found = self._read(whole=True)
        if self.generation not in (None, found.generation):
            raise SaleError(
                "The sale was reset during the rush; start again, and use this stack for nothing else meanwhile."
            )
        return list(found.entries), found.left

    def _read(self, *, whole: bool = False) -> SaleReading:
        """The sale, which has to be there."""
        try:
            found = self._ledger.read(whole=whole)
        except UNREADABLE as error:
            why = str(error).rstrip(".")
            raise SaleError(
                f"The ledger cannot be read: {why}. See that Redis runs, and is the one in FLASHSALE_REDIS_URL."
            ) from error
        if found.generation is None:
            raise SaleError(
                "There is no such sale in Redis: set FLASHSALE_REDIS_URL and FLASHSALE_SALE as for the instances."
            )
        return found

    def sample(self, at_ms: float) -> Sample:
        """How it stands at this moment; cheap enough to be asked several times a second."""
        stock = orders = waiters = None
        with contextlib.suppress(*UNREADABLE):
            found = self._ledger.read()
            stock, orders = found.left if found.generation else None, found.orders
        with contextlib.suppress(*UNANSWERED):
            waiters = max(int(get_json(self._count_queue()).get("count", 0)) - 1, 0)
        return Sample(at_ms, stock, orders, None, waiters)

    def _count_queue(self) -> urllib.request.Request:
        """etcd's own HTTP gateway: how many keys begin with the queue's prefix."""
        bounds = self._queue, self._queue[:-1] + bytes([self._queue[-1] + 1])
        key, range_end = (base64.b64encode(bound).decode() for bound in bounds)
        asked = {"key": key, "range_end": range_end, "count_only": True}
        return urllib.request.Request(f"http://{self._etcd}/v3/kv/range", json.dumps(asked).encode())

    def versions(self) -> dict[str, str]:
        """Of Python, the packages that are installed here, and the servers that answer."""
        found = {"python": platform.python_version()}
        for package in PACKAGES:
            with contextlib.suppress(PackageNotFoundError):  # a machine that only sends the rush needs no gunicorn
                found[package] = version(package)
        with contextlib.suppress(*UNREADABLE):
            about: Any = self._ledger.client.info("server")
            found[about.get("server_name", "redis") + "-server"] = about.get("valkey_version") or about["redis_version"]
        with contextlib.suppress(*UNANSWERED, KeyError):
            found["etcd"] = get_json(f"http://{self._etcd}/version")["etcdserver"]
        return found


def _secret(name: str) -> str:
    """As the instances have it: of the variable, or of the file that ``NAME_FILE`` names. Raises SaleError."""
    secret, file = (os.environ.get(f"FLASHSALE_{name}{end}") for end in ("", "_FILE"))
    if secret or not file:
        return secret or ""
    try:
        return read_secret(file)
    except (OSError, ValueError) as error:
        raise SaleError(f"FLASHSALE_{name}_FILE cannot be read ({error}): name the instances' file.") from error


def _redis_url() -> str:
    """As the instances have it; raises SaleError."""
    url, password = os.environ.get("FLASHSALE_REDIS_URL") or "redis://127.0.0.1:6379/0", _secret("REDIS_PASSWORD")
    try:
        return with_password(url, password) if password else url
    except ValueError as problem:
        raise SaleError(f"FLASHSALE_REDIS_URL {problem}.") from problem
