"""What a scene does to the running stack, and what it sees of it.

Every call has a deadline, but for a buyer's click: its answer comes when the teacher has spoken, and a process that is
gone closes the connection.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from app.board.settings import BoardSettings
from app.board.sources.etcd import read_queue
from app.board.sources.locust import DIRECT
from app.board.sources.stack_client import StackClient
from app.config.etcd import connect_etcd
from app.contract.keys import DEFAULT_ITEM
from app.contract.outcomes import Outcome
from app.contract.section_log import GuardSource, LoggedSection, SectionTail
from app.sales.redis_client import connect
from labs.scenes.phases import Countdown

ASK_S = 5.0
POLL_S = 0.05
LEASE_POLL_S = 0.2


class TooSlow(Exception):
    """What a scene waits for did not happen in time: this machine is too slow, and there is no verdict."""


class CannotPlay(Exception):
    """The stack is not one on which scenes can be played; the message is the key of the text that says why."""


@dataclass(frozen=True)
class SceneAnswer:
    """What a buyer was told; `outcome` is None without an answer."""

    outcome: Outcome | None
    order: str | None = None
    token: Any = None
    instance: str = ""


class SceneStage:
    """The stack of one board; raises CannotPlay unless it offers so many `items`.

    Attributes:
        instances: the base URL of each instance, by its name, in the order of the settings.
        ttl_s: after which etcd frees the lock of a frozen holder.
    """

    def __init__(self, settings: BoardSettings, *, items: int) -> None:
        if settings.stack is None or not settings.on_loopback:
            raise CannotPlay("cannot.elsewhere")
        self._shop = settings.shop
        self._stack = StackClient(settings.stack)
        self._tail = SectionTail(settings.shop.section_log, from_now=True)
        self._sections: dict[tuple[str, str], LoggedSection] = {}  # by buyer and item
        self._buyers = ThreadPoolExecutor(16, "buyer")
        self._etcd = connect_etcd(settings.shop)
        self.ttl_s = settings.shop.lease_ttl
        self.instances = {self._name(url): url for url in settings.instances}
        if len(self.instances) < 2:
            raise CannotPlay("cannot.one_instance")
        if settings.shop.items < items:
            raise CannotPlay("cannot.items")

    def close(self) -> None:
        """Thaw and start what the scene left frozen or dead, end its purchases, and wait for its buyers."""
        for name, state in self._stack.states().items():
            if state != "running":
                self._stack.act("thaw" if state == "frozen" else "start", name)
        self.give_up()
        self._buyers.shutdown()
        self._etcd.close()

    def give_up(self) -> None:
        """End the purchases that stand before their write: those of a scene that was stopped, or whose board died."""
        for url in self.instances.values():
            with suppress(OSError):  # at one that does not answer there is none
                self._ask(f"{url}/scenes/held", method="DELETE")

    def act(self, action: str, process: str) -> None:
        """Freeze, thaw, kill or start an instance, or a server of the stack."""
        self._stack.act(action, process)

    def reset(self, stock: int, *, through: str) -> None:
        """Begin a sale of so many items."""
        self._ask(f"{self.instances[through]}/stock/reset?stock={stock}", method="POST")
        self._tail.poll()
        self._sections = {}

    def wipe_redis(self) -> None:
        """Have Redis forget everything, as a restart without its data does."""
        with connect(self._shop.redis_url, connections=1) as redis:
            redis.flushall()

    def sale(self, item: str = DEFAULT_ITEM, *, through: str) -> dict[str, Any]:
        """``GET /stock`` of an instance."""
        return self._ask(f"{self.instances[through]}/stock?item={item}")

    def buy(
        self, buyer: str, guard: str, *, at: str, item: str = DEFAULT_ITEM, think_ms: int = 0
    ) -> Future[SceneAnswer]:
        """A click, in its own thread; it never raises."""
        query = urllib.parse.urlencode({"guard": guard, "buyer": buyer, "item": item, "hold_ms": think_ms})
        return self._buyers.submit(self._click, f"{self.instances[at]}/stock/reduce?{query}")

    def hold(self, buyer: str, guard: str, item: str, *, at: str) -> Future[SceneAnswer]:
        """A click that stands still before its write, until `open_gate`."""
        query = urllib.parse.urlencode({"guard": guard, "buyer": buyer, "item": item})
        return self._buyers.submit(self._click, f"{self.instances[at]}/scenes/reduce?{query}")

    def await_held(self, count: int, timeout: float, *, at: str) -> list[dict[str, Any]]:
        """The purchases that stand before their write, once there are so many; raises TooSlow."""

        def look() -> list[dict[str, Any]]:
            held: list[dict[str, Any]] = self._ask(f"{self.instances[at]}/scenes/held")["held"]
            return held if len(held) == count else []

        held: list[dict[str, Any]] = self.await_that(look, timeout)
        return held

    def open_gate(self, *, at: str) -> None:
        """Let them write."""
        self._ask(f"{self.instances[at]}/scenes/open", method="POST")

    def source(self, guard: str, first: int | None, last: int | None) -> GuardSource:
        """These lines of a guard, counted as in its file; raises TooSlow if its instance has not kept them yet."""
        whole = GuardSource.kept(self._shop.section_log, guard)
        if whole is None or first is None or last is None:
            raise TooSlow
        lines = whole.text.splitlines(keepends=True)[first - whole.first_line : last - whole.first_line + 1]
        return GuardSource(whole.file, first, "".join(lines))

    def lease_of(self, instance: str, *, token: Any, timeout: float) -> Iterator[Countdown]:
        """What etcd says is left of the lease, until the holder with this token is gone; raises TooSlow."""
        until, last = time.monotonic() + timeout, -1
        while (holder := read_queue(self._etcd, self._shop.queue_name)["holder"]) and holder["token"] == token:
            if time.monotonic() > until:
                raise TooSlow
            if (left := max(holder["ttl_s"] or 0, 0)) != last:
                yield Countdown(instance, left, self.ttl_s)
            last = left
            time.sleep(LEASE_POLL_S)
        yield Countdown(instance, None, self.ttl_s)

    def await_section(self, buyer: str, timeout: float, item: str = DEFAULT_ITEM) -> LoggedSection:
        """The critical section of a buyer, once it has begun; raises TooSlow."""
        section: LoggedSection = self.await_that(lambda: self._section_of(buyer, item), timeout)
        return section

    def ended_section(self, buyer: str, item: str = DEFAULT_ITEM) -> LoggedSection | None:
        """The critical section of a buyer, if it has begun and ended."""
        section = self._section_of(buyer, item)
        return section if section and section.left is not None else None

    def await_that(self, look: Callable[[], Any], timeout: float) -> Any:
        """What `look` returns, once it is true; raises TooSlow."""
        until = time.monotonic() + timeout
        while not (seen := look()):
            if time.monotonic() > until:
                raise TooSlow
            time.sleep(POLL_S)
        return seen

    def _section_of(self, buyer: str, item: str) -> LoggedSection | None:
        """Of this sale: a reset begins with new buyers."""
        self._sections |= {(each.buyer, each.item): each for each in self._tail.poll()}
        return self._sections.get((buyer, item))

    def _name(self, url: str) -> str:
        return str(self._ask(f"{url}/livez")["instance"])

    def _click(self, url: str) -> SceneAnswer:
        try:
            response = self._ask(url, method="POST", timeout=None)  # the instance may be frozen for as long as it takes
        except urllib.error.HTTPError as error:
            with error:
                response = json.load(error)
        except (OSError, ValueError):
            return SceneAnswer(None)
        outcome = Outcome(response["outcome"])
        return SceneAnswer(outcome, response["order"], response["token"], response["instance"])

    def _ask(self, url: str, *, method: str = "GET", timeout: float | None = ASK_S) -> dict[str, Any]:
        request = urllib.request.Request(url, method=method, headers=self._shop.authorization)
        with DIRECT.open(request, timeout=timeout) as response:
            answer: dict[str, Any] = json.load(response)
        return answer
