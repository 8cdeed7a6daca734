"""What a scene does to the running stack, what it sees of it, and the steps in which it tells that.

Every call has a deadline, but for a buyer's click: its answer comes when the teacher has spoken, and a process that is
gone closes the connection. Texts are keys of ``static/texts.json``, with values that may be keys as well.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlencode

from app.board.settings import BoardSettings
from app.board.sources.etcd import read_queue
from app.board.sources.locust import DIRECT
from app.board.sources.stack_client import StackClient
from app.config.etcd import connect_etcd
from app.contract.clock import now_ns
from app.contract.keys import DEFAULT_ITEM

ITEMS = 3  # that the stack has to sell
SLOW_S = 10.0  # on a machine that is not too slow everything has happened by then
ASK_S = 5.0
POLL_S = 0.05
LEASE_POLL_S = 0.2


class Phase(NamedTuple):
    """What happens now, or if it `waits`, when the teacher says so; and the `columns` of code if they change.

    A column is ``{"guard", "source": {"file", "first_line", "text"}, "markers": [...]}``, and a marker
    ``{"buyer", "line", "text", "values", "tone"}``.
    """

    text: str
    values: dict[str, Any]
    columns: Sequence[dict[str, Any]] = ()
    waits: bool = False


class Countdown(NamedTuple):
    """What is left of the lease of an instance, in whole seconds as etcd says; `None` when it has ended."""

    instance: str
    left_s: int | None
    granted_s: int


class Result(NamedTuple):
    """How a sale ended; `kind` is that of `app.contract.verdict`, of which the value `n` tells by how many."""

    guard: str
    text: str
    values: dict[str, Any]
    kind: str

    @classmethod
    def of(cls, guard: str, text: str, values: dict[str, Any], sale: dict[str, Any]) -> Result:
        """The result of a sale as ``GET /stock`` shows it."""
        return cls(guard, text, {**values, "n": abs(sale["orders"] - sale["initial"])}, sale["kind"])


Step = Phase | Countdown | Result


class TooSlow(Exception):
    """What a scene waits for did not happen in time: this machine is too slow, and there is no verdict."""


class CannotPlay(Exception):
    """The stack is not one on which scenes can be played; the message is the key of the text that says why."""


Answer = dict[str, Any]  # what a buyer was told, and since when the purchase was `entered`; empty without an answer


def since(began_ns: int, until_ns: int | None = None) -> str:
    """Seconds until now, or then, as a scene tells them."""
    return f"{((until_ns or now_ns()) - began_ns) / 1e9:.1f}"


class SceneStage:
    """The stack of one board; raises CannotPlay unless it has two instances with `ITEMS` items."""

    def __init__(self, settings: BoardSettings) -> None:
        if settings.stack is None or not settings.on_loopback:
            raise CannotPlay("cannot.elsewhere")
        if len(settings.instances) < 2:
            raise CannotPlay("cannot.one_instance")
        if settings.shop.items < ITEMS:
            raise CannotPlay("cannot.items")
        self._shop = settings.shop
        self._stack = StackClient(settings.stack)
        self.act = self._stack.act  # freezes, thaws, kills or starts an instance
        self.instances: dict[str, str] = {}  # the base URL of each instance, by its name, in the order of the settings
        self.instances = {str(self.ask(url, "/livez")["instance"]): url for url in settings.instances}
        self._buyers = ThreadPoolExecutor(16, "buyer")
        self._etcd = connect_etcd(settings.shop)

    def close(self) -> None:
        """Thaw and start what the scene left frozen or dead, end its purchases, and wait for its buyers."""
        for name, state in self._stack.states().items():
            if state != "running":
                self.act("thaw" if state == "frozen" else "start", name)
        self.give_up()
        self._buyers.shutdown()
        self._etcd.close()

    def ask(self, instance: str, path: str, method: str = "GET", *, timeout: float | None = ASK_S) -> dict[str, Any]:
        """What an instance answers, which is named or at this URL; raises OSError."""
        url = self.instances.get(instance, instance) + path
        asked = urllib.request.Request(url, method=method, headers=self._shop.authorization)
        with DIRECT.open(asked, timeout=timeout) as response:
            answer: dict[str, Any] = json.load(response)
        return answer

    def buy(self, buyer: str, guard: str, *, at: str, item: str = DEFAULT_ITEM) -> Future[Answer]:
        """A click in its own thread; it never raises."""
        query = urlencode({"guard": guard, "buyer": buyer, "item": item})
        return self._buyers.submit(self._click, at, f"/stock/reduce?{query}")

    def hold(self, guard: str, *, at: str, item: str = DEFAULT_ITEM) -> dict[str, Any]:
        """Ada's purchase, right before its write and after the guard's check, see `labs.steps`; raises TooSlow.

        Its `lock` is a line, as its `write`, and `source` has the guard's lines from the one to the other.
        """
        query = urlencode({"guard": guard, "buyer": "ada", "item": item})
        id = self.ask(at, f"/steps?{query}", "POST")["id"]
        lock, held = (self.step_to(point, id, at=at) for point in ("locked", "write"))
        whole, first, last = held["source"], lock["line"], held["line"]
        lines = whole["text"].splitlines(keepends=True)[first - whole["first_line"] : last - whole["first_line"] + 1]
        source = {"file": whole["file"], "first_line": first, "text": "".join(lines)}
        return {"id": id, "token": held["token"], "lock": first, "write": last, "source": source}

    def step_to(self, point: str, id: str, *, at: str) -> dict[str, Any]:
        """Let a stepped purchase go on to this point; raises TooSlow."""

        def shown() -> dict[str, Any] | None:
            found: dict[str, Any] = next(each for each in self.ask(at, "/steps")["purchases"] if each["id"] == id)
            if found["point"] != point and found["stands"]:
                self.ask(at, f"/steps/{id}", "POST")
            return found if found["point"] == point else None

        seen: dict[str, Any] = self.await_that(shown)
        return seen

    def give_up(self) -> None:
        """End the purchases that stand before their write: those of a scene that was stopped, or whose board died."""
        for name in self.instances:
            with suppress(OSError):  # at one that does not answer there is none
                self.ask(name, "/steps", "DELETE")

    def holder_at(self, instance: str) -> dict[str, Any] | None:
        """The holder of the lock, if it is this instance."""
        holder: dict[str, Any] | None = read_queue(self._etcd, self._shop.queue_name)["holder"]
        return holder if holder and holder["instance"] == instance else None

    def lease_of(self, instance: str) -> Iterator[Countdown]:
        """What etcd says is left of the lease, until this instance holds the lock no more; raises TooSlow."""
        ttl_s = self._shop.lease_ttl
        until = time.monotonic() + ttl_s + SLOW_S
        while holder := self.holder_at(instance):
            if time.monotonic() > until:
                raise TooSlow
            yield Countdown(instance, max(holder["ttl_s"] or 0, 0), ttl_s)
            time.sleep(LEASE_POLL_S)
        yield Countdown(instance, None, ttl_s)

    def await_that(self, look: Callable[[], Any]) -> Any:
        """What `look` returns, once it is true; raises TooSlow."""
        until = time.monotonic() + SLOW_S
        while not (seen := look()):
            if time.monotonic() > until:
                raise TooSlow
            time.sleep(POLL_S)
        return seen

    def _click(self, instance: str, path: str) -> Answer:
        sent = now_ns()
        try:
            answer = self.ask(instance, path, "POST", timeout=None)  # it may be frozen for as long as it takes
        except urllib.error.HTTPError as error:
            with error:
                answer = json.load(error)
        except (OSError, ValueError):
            return {}
        return answer | {"entered": sent + int(answer["waited_ms"] * 1_000_000)}
