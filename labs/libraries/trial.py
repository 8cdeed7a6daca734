"""One run of a case: contenders in processes of the library's adapter, a server with a proxy, and what was seen."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labs.libraries.program import NotTried, Program, Response, Then
from labs.libraries.stores.store import Store

SERVER = "server"
TTL_S = 3  # the shortest that all libraries and servers take
POLL_S = 0.02
Launch = Callable[[str], Program]  # with the server's address


@dataclass(frozen=True)
class HistoryEvent:
    """Something that happened, in seconds since the case began: a sentence of ``words.json``, and its values."""

    at_s: float
    actor: str  # a contender, `SERVER`, or "network"
    what: str
    about: dict[str, Any] = field(default_factory=dict)


class LockTrial:
    """As a context manager: its processes are gone afterwards, and the proxies are clear.

    `lag_s` is by how much this process was late at most, which is then no fault of a library.
    """

    _numbers = itertools.count(1)

    def __init__(self, name: str, store: Store, directory: Path, launch: Launch, waiters: int) -> None:
        self.name = f"{name}-{next(self._numbers)}"
        self.store = store
        self.file = directory / f"{self.name}.jsonl"
        self.waiters, self._launch = waiters, launch
        self._programs: list[Program] = []
        self._over = threading.Event()
        self.begin()

    def __enter__(self) -> LockTrial:
        threading.Thread(target=self._measure_lag, name="lag", daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._over.set()
        for program in self._programs:
            program.kill()
        self.store.proxies.resume()
        self.store.proxies.slow_down(0, 0)

    def contenders(self, *names: str, proxied: bool = False) -> list[TrialContender]:
        """Contenders of a new process."""
        program = self._launch(self.store.proxied if proxied else self.store.address)
        self._programs.append(program)
        return [TrialContender(name, self, program) for name in names]

    def begin(self) -> None:
        """Count time from here: the processes have started."""
        self._began, self.lag_s = time.monotonic(), 0.0
        self._events: list[HistoryEvent] = []

    def keys(self) -> list[str]:
        """What the server has of this lock."""
        return self.store.keys(self.name)

    def lines(self) -> list[dict[str, Any]]:
        """What the processes appended to the file, in order of time."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return sorted(map(json.loads, lines), key=lambda line: line["at"])

    def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether it became true in that time."""
        deadline = time.monotonic() + seconds
        while not (fulfilled := condition()) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return fulfilled

    def now(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    def note(self, what: str, actor: str = SERVER, *, at: float | None = None, **about: Any) -> None:
        """Add an event of now, or of a time of the monotonic clock."""
        at_s = self.now() if at is None else at - self._began
        self._events.append(HistoryEvent(round(at_s, 3), actor, what, about))

    @property
    def events(self) -> list[HistoryEvent]:
        """What happened, in order of time."""
        return sorted(self._events, key=lambda event: event.at_s)

    def first(self, what: str, actor: str) -> float | None:
        """When an actor first did that, in seconds since the beginning."""
        return next((event.at_s for event in self.events if (event.actor, event.what) == (actor, what)), None)

    def _measure_lag(self) -> None:
        began = time.monotonic()
        while not self._over.wait(POLL_S):
            self.lag_s = max(self.lag_s, time.monotonic() - began - POLL_S)
            began = time.monotonic()


@dataclass
class TrialContender:
    """One that wants the lock: a thread or a task of a process."""

    name: str
    trial: LockTrial
    program: Program
    holds: bool = False  # from the answer that it has the lock until it begins to release it

    def ask(self, ttl: int = TTL_S, timeout: int | None = None) -> Future[Response]:
        """Ask for the lock; the response comes when it has it, or not. A timeout of 0 is the call that tries once."""
        self.trial.note("asks" if timeout is None else "asks_for", self.name, timeout=timeout)
        return self.send("acquire", self._asked, name=self.trial.name, ttl=ttl, timeout=timeout)

    def acquire(self, ttl: int = TTL_S, timeout: int | None = None, *, within: float = 15.0) -> Response | None:
        """Ask, and wait for the response at most this long."""
        return answer(self.ask(ttl, timeout), within)

    def take(self, ttl: int = TTL_S) -> None:
        """Acquire a lock that is free; raises NotTried."""
        response = self.acquire(ttl)
        if response is None or not response.acquired:
            raise NotTried(f"{self.name} did not get a free lock: {response and response.error}")

    def release(self, within: float = 10.0) -> Response | None:
        """Release, and wait for the response at most this long."""
        self.holds = False
        self.trial.note("releases", self.name)
        return answer(self.send("release", self._released), within)

    def held(self, within: float = 5.0) -> Response | None:
        """Ask the library whether it still holds."""
        return answer(self.send("held"), within)

    def send(self, do: str, then: Then | None = None, **arguments: Any) -> Future[Response]:
        """Ask for what the harness calls so; `then` gets the response as soon as it comes."""
        return self.program.send(do, self.name, then, **arguments)

    def _asked(self, response: Response) -> None:
        if response.acquired:
            self.holds = True
            self.trial.note("holds", self.name)
        elif not response.error:
            self.trial.note("gives_up" if response.offered else "not_offered", self.name)
        else:
            self.trial.note("fails", self.name, error=brief(response.error))

    def _released(self, response: Response) -> None:
        if response.error:
            self.trial.note("release_fails", self.name, error=brief(response.error))
        else:
            self.trial.note("released", self.name)


def require_waiting(waiter: TrialContender, wait: Future[Response]) -> None:
    """Raise NotTried if a wait ended with an error."""
    if wait.done() and not waiter.holds:
        raise NotTried(f"{waiter.name} does not wait: {brief(str(wait.result().error))}")


def answer(future: Future[Response], within: float) -> Response | None:
    """The response, or `None` if there is none in so many seconds."""
    try:
        return future.result(within)
    except TimeoutError:
        return None


def brief(error: str) -> str:
    """The first line of an error, cut."""
    line = error.splitlines()[0] if error.splitlines() else error
    return line if len(line) <= 90 else f"{line[:89]}…"
