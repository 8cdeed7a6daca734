"""What the board asks of the instances, which refuse other sites' pages: to begin, to step and to show purchases."""

from __future__ import annotations

import json
import threading
import urllib.request
from contextlib import suppress
from typing import Any
from urllib.error import HTTPError

from werkzeug.exceptions import BadGateway, HTTPException, NotFound, ServiceUnavailable, abort

from app import services
from app.board.settings import BoardSettings
from app.board.sources.etcd import read_queue
from app.board.sources.instances import find
from app.board.sources.locust import DIRECT, UNREACHABLE, RushClient
from app.board.sources.stack_client import StackClient
from app.config.etcd import connect_etcd
from app.contract.orders import token_in
from labs.steps.mistakes import mistakes
from lock import LockError

TIMEOUT = 0.8  # to look at an instance
ACT_TIMEOUT = 8.0  # to end its purchases, which takes a few seconds
BUYERS = "ABCDEFGH"


class Scheduler:
    """The stepped purchases of all instances, as one; an instance that is silent keeps those that were seen last."""

    def __init__(self, settings: BoardSettings, *, stack: StackClient | None, locust: RushClient) -> None:
        shop = settings.shop
        self._settings = settings
        self._etcd = connect_etcd(shop, timeout=1.0)
        self._sale = services.sale_of(shop, self._etcd, connections=2, timeout=1.0)
        self._stack = stack if settings.on_loopback else None
        self._locust = locust
        self._seen: dict[str, dict[str, Any]] = {}  # by URL
        self._beginning = threading.Lock()

    def begin(self, guard: str, grain: str) -> None:
        """End what is under way, reset the stock to one, and start two purchases, one at each of two instances.

        A mistake may need more of both. One after the other: of those who begin at once, the last has all purchases.
        """
        with self._beginning:
            self._begin(guard, grain)

    def _begin(self, guard: str, grain: str) -> None:
        with suppress(*UNREACHABLE):  # without Locust no rush is running
            self._locust.require_idle()
        for name, state in self._states().items():
            if state == "frozen" and self._stack:
                self._stack.act("thaw", name)
        for url in self._urls():
            self._ask(url, method="DELETE")
        kind = mistakes().get(guard)
        self._remove_locks()
        self._sale.reset(getattr(kind, "items", 1))
        for buyer in BUYERS[: getattr(kind, "buyers", 2)]:
            self.add(guard, buyer, grain)
        self._seen = {}  # behind the last of them: what another viewer asked for before must not be kept as the latest

    def _remove_locks(self) -> None:
        """Nothing is left in the sale's name that a guard has written, wherever its purchases were stopped."""
        client = self._sale.client
        of_the_sale = {
            key for each in self._sale.keys_of.values() for name, key in vars(each).items() if name != "lock"
        }
        for key in client.scan_iter(f"{self._sale.keys.prefix}*"):
            if key not in of_the_sale:
                client.delete(key)
        with suppress(LockError):  # without etcd, the next purchase finds out by itself
            for kv in self._etcd.get_prefix(f"{self._settings.shop.queue_name}:").keys:
                self._etcd.delete(kv.key)

    def add(self, guard: str, buyer: str, grain: str) -> None:
        """Start one more."""
        urls = self._urls()
        self._ask(urls[BUYERS.index(buyer) % len(urls)], body={"guard": guard, "buyer": buyer, "grain": grain})

    def step(self, id: str) -> None:
        """Let one go on to its next stop."""
        for url, seen in list(self._seen.items()):
            if any(each["id"] == id for each in seen["purchases"]):
                self._ask(url, f"/{id}", body={})
                return
        raise NotFound("This purchase is not there any more: start anew.")

    def show(self) -> dict[str, Any]:
        """Instances with their purchases, the sale, and the queue of the lock; see `labs.steps.shop` for a purchase."""
        states = self._states()
        known, instances = self._seen, []  # another viewer may begin meanwhile, who forgets all that was seen
        for url in self._urls():
            name = known.get(url, {}).get("name")
            seen = known.setdefault(url, {"name": url.rpartition("//")[2], "purchases": []})
            instances.append(seen)
            seen["state"] = states.get(str(name), "silent")
            if seen["state"] in ("frozen", "ended"):
                continue
            with suppress(HTTPException):  # raised by `_ask`
                told = self._ask(url, timeout=TIMEOUT)
                seen |= {"name": told["instance"], "purchases": told["purchases"], "state": "running"}
        queue = read_queue(self._etcd, self._settings.shop.queue_name)
        waits = [queue["holder"], *queue["waiters"]] if queue["holder"] else []
        return {"instances": instances, "sale": self._counters(), "queue": waits}

    def _counters(self) -> dict[str, Any]:
        client, keys = self._sale.client, self._sale.keys
        with client.pipeline(transaction=True) as pipe:
            pipe.get(keys.initial)
            pipe.get(keys.stock)
            pipe.llen(keys.orders)
            pipe.get(keys.fence)
            items, stock, orders, fence = pipe.execute()
        return {"items": items, "stock": stock, "orders": orders, "fence": token_in(fence)}

    def _states(self) -> dict[str, str]:
        """Of the local stack, by the name of the instance."""
        with suppress(OSError, ValueError):
            return self._stack.states() if self._stack else {}
        return {}

    def _urls(self) -> list[str]:
        try:
            return find(self._settings.instances)
        except OSError as error:
            raise ServiceUnavailable(f"The instances are not found ({error}).") from error

    def _ask(
        self, url: str, path: str = "", *, body: Any = None, method: str | None = None, timeout: float = ACT_TIMEOUT
    ) -> dict[str, Any]:
        """What the instance answers; POST if there is a body. Raises an HTTPException for the page."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **self._settings.shop.authorization}
        asked = urllib.request.Request(f"{url}/steps{path}", data, headers, method=method)
        try:
            with DIRECT.open(asked, timeout=timeout) as response:
                answer: dict[str, Any] = json.load(response)
            return answer
        except HTTPError as error:
            with suppress(ValueError, LookupError, TypeError):
                abort(error.code, json.load(error)["detail"])
            raise BadGateway(f"{url} answered {error.code}.") from error
        except UNREACHABLE as error:
            raise ServiceUnavailable(f"{url} does not answer ({error}): thaw or start it.") from error
