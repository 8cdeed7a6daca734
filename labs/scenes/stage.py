"""What a scene does to the running stack, and what it sees of it. Every call has a deadline."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from app.board.settings import BoardSettings
from app.board.sources.locust import DIRECT
from app.board.sources.stack_client import StackClient
from app.contract.outcomes import Outcome
from app.contract.section_log import LoggedSection, SectionTail
from app.sales.redis_client import connect

ANSWER_S = 900.0  # of a buyer whose instance is frozen while the teacher speaks
ASK_S = 5.0
POLL_S = 0.05


class TooSlow(Exception):
    """What a scene waits for did not happen in time: this machine is too slow, and there is no verdict."""


class CannotPlay(Exception):
    """The stack is not one on which scenes can be played; the message is the key of the text that says why."""


@dataclass(frozen=True)
class Answer:
    """What a buyer was told; `outcome` is None without an answer."""

    outcome: Outcome | None
    order: str | None = None
    token: Any = None
    instance: str = ""


class Stage:
    """The stack of one board.

    Attributes:
        instances: the base URL of each instance, by its name, in the order of the settings.
        ttl_s: after which etcd frees the lock of a frozen holder.
    """

    def __init__(self, settings: BoardSettings) -> None:
        if settings.stack is None or not settings.on_loopback:
            raise CannotPlay("cannot.elsewhere")
        self._shop = settings.shop
        self._stack = StackClient(settings.stack)
        self._tail = SectionTail(settings.shop.section_log, from_now=True)
        self._sections: dict[str, LoggedSection] = {}
        self._buyers = ThreadPoolExecutor(16, "buyer")
        self.ttl_s = settings.shop.lease_ttl
        self.instances = {self._name(url): url for url in settings.instances}
        if len(self.instances) < 2:
            raise CannotPlay("cannot.one_instance")

    def close(self) -> None:
        """Thaw and start what the scene left frozen or dead, and wait for its buyers."""
        for name, state in self._stack.states().items():
            if state != "running":
                self._stack.act("thaw" if state == "frozen" else "start", name)
        self._buyers.shutdown()

    def act(self, action: str, process: str) -> None:
        """Freeze, thaw, kill or start an instance, or a server of the stack."""
        self._stack.act(action, process)

    def reset(self, stock: int, *, through: str) -> None:
        """Begin a sale of so many items."""
        self._ask(
            f"{self.instances[through]}/stock/reset?stock={stock}", method="POST", headers=self._shop.authorization
        )
        self._tail.poll()
        self._sections = {}

    def wipe_redis(self) -> None:
        """Have Redis forget everything, as a restart without its data does."""
        with connect(self._shop.redis_url, connections=1) as redis:
            redis.flushall()

    def sale(self, *, through: str) -> dict[str, Any]:
        """``GET /stock`` of an instance."""
        return self._ask(f"{self.instances[through]}/stock")

    def buy(self, buyer: str, guard: str, *, at: str, think_ms: int = 0) -> Future[Answer]:
        """A click, in a thread of its own; it never raises."""
        query = urllib.parse.urlencode({"guard": guard, "buyer": buyer, "hold_ms": think_ms})
        return self._buyers.submit(self._click, f"{self.instances[at]}/stock/reduce?{query}")

    def await_section(self, buyer: str, timeout: float) -> LoggedSection:
        """The critical section of a buyer, once it has begun; raises TooSlow."""
        section: LoggedSection = self.await_that(lambda: self._section_of(buyer), timeout)
        return section

    def ended_section(self, buyer: str) -> LoggedSection | None:
        """The critical section of a buyer, if it has begun and ended."""
        section = self._section_of(buyer)
        return section if section and section.left is not None else None

    def await_that(self, look: Callable[[], Any], timeout: float) -> Any:
        """What `look` returns, once it is true; raises TooSlow."""
        until = time.monotonic() + timeout
        while not (seen := look()):
            if time.monotonic() > until:
                raise TooSlow
            time.sleep(POLL_S)
        return seen

    def _section_of(self, buyer: str) -> LoggedSection | None:
        """Of this sale: a reset begins with new buyers."""
        self._sections |= {each.buyer: each for each in self._tail.poll()}
        return self._sections.get(buyer)

    def _name(self, url: str) -> str:
        return str(self._ask(f"{url}/livez")["instance"])

    def _click(self, url: str) -> Answer:
        try:
            told = self._ask(url, method="POST", timeout=ANSWER_S)
        except urllib.error.HTTPError as error:
            with error:
                told = json.load(error)
        except (OSError, ValueError):
            return Answer(None)
        outcome = Outcome(told["outcome"])
        return Answer(outcome, told["order"], told["token"], told["instance"])

    def _ask(self, url: str, *, method: str = "GET", headers: Any = None, timeout: float = ASK_S) -> dict[str, Any]:
        request = urllib.request.Request(url, method=method, headers=headers or {})
        with DIRECT.open(request, timeout=timeout) as response:
            answer: dict[str, Any] = json.load(response)
        return answer
