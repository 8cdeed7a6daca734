"""Instances without HTTP whose purchases stop at every point or command, made by fork as they are needed.

``python -m labs.steps.schedules.worker SOCKET`` listens there. Each connection is served by a new process, which has
session, connections and threads like an instance. The first request has the settings of the instance, all others
name a method of the worker.

A pause of an instance has to last beyond its lease. Nobody waits for that: the clock by which `lock` counts is moved on
when the instance is thawed. A lease that is revoked while that clock stands still would pass checks that fail after a
real pause.
"""

from __future__ import annotations

from labs.steps.schedules import still

if __name__ == "__main__":
    still.install_chance()

import gc
import inspect
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from random import Random
from typing import Any

from app import create_app, services
from app.config.settings import Settings
from app.contract import labs
from app.guards import base
from app.server.cpu import run_on
from labs.steps.frames import current_frames
from labs.steps.guard_files import BrokenGuard, GuardFile
from labs.steps.schedules.folders import shared_in
from labs.steps.schedules.instances import TTL_S
from labs.steps.schedules.threads import Threads
from labs.steps.shop import is_own, know_the_sale, know_the_servers, owner_among
from labs.steps.stepped import COMMANDS, ETCD_REQUEST, SteppedPurchase
from labs.steps.wire import Fate, numbers_in, wire
from labs.steps.wire.sockets import is_message_there
from lock import LockError

LIMIT_S = 600.0  # of a purchase, more than any schedule takes
START_S = 15.0
END_S = 2.0
ATTEMPT_S, MOST_IN_AN_ATTEMPT = 5.0, 200  # until a command of it, and how many there are at most
SLICE_S = 0.02  # of a wait for a thread lock, so that a purchase that waits is known soon


class SteppedWorker:
    """One instance, and its purchases by their buyers."""

    def __init__(self, environment: dict[str, str]) -> None:
        os.environ.update(environment)
        self._purchases: dict[str, SteppedPurchase] = {}
        self._seen: dict[str, list[str]] = {}
        self._making: Random | None = None  # what a guard draws from while it is made
        self._threads = Threads()
        self._file = ""  # of the guard
        still.Chance.of_thread = self._chance
        still.Chance.saw = self._saw
        still.Chance.passed = numbers_in(Path(os.environ["SCHEDULES_PASSED"]), "d", 1)
        still.install_time(self)
        temporary, work = os.environ["TMPDIR"], os.environ["SCHEDULES_WORK"]
        wire.shared = shared_in(temporary, work, applies=lambda path: path != self._file and self._chance() is not None)
        os.chdir(work)
        wire.sent = numbers_in(Path(os.environ["SCHEDULES_COUNTS"]), "Q", 2)
        base.SLICE_S, wire.life_ms, wire.owner = SLICE_S, TTL_S * 1000, self._sender
        settings = Settings.from_environment()
        know_the_servers(settings)
        wire.wrap()
        if settings.cpu is not None:
            run_on(settings.cpu)
        self._shop = services.of(create_app(settings))
        self._shop.sessions.check_open = self._counted_check(self._shop.sessions.check_open)  # type: ignore[method-assign]
        self._shop.background.clear()  # what labs send from time to time is no purchase's
        self._shop.warm_up()
        self._await_session(still.real_monotonic() + START_S)  # on a busy machine etcd may not have answered

    def _await_session(self, until: float) -> bool:
        """Whether it has a session by then: purchases begin with one."""
        while still.real_monotonic() < until:
            with suppress(LockError):
                self._shop.sessions.session().ensure()
                return True
            time.sleep(0.002)
        return False

    # Whose thread this is

    def _owner(self) -> SteppedPurchase | None:
        """The purchase of this thread."""
        return owner_among(list(self._purchases.values()))

    def _sender(self) -> SteppedPurchase | None:
        """The purchase of this thread, which is about to send something."""
        purchase, thread = self._owner(), threading.current_thread()
        if purchase is None and self._purchases and not is_own(thread):
            wire.others.add(f"the servers by the thread {thread.name}, and may be either of two purchases")
        return purchase

    def _chance(self) -> Random | None:
        purchase = self._owner()
        return purchase.chance if purchase else self._making

    def _saw(self, passed: float) -> None:
        if purchase := self._owner():
            purchase.clocks.add(passed)

    def makes_purchase(self) -> bool | None:
        """Whether this thread makes a purchase, and does not help another one to; None in a thread of the shop."""
        purchase = self._owner()
        return None if purchase is None else purchase.thread is threading.current_thread()

    def await_time(self, wait: Callable[[], bool | None]) -> bool:
        """Wait until time passes for a thread that helps, or `wait` is true; whether it was.

        It passes where the thread waits that makes the purchase: for this one, or for ever.
        """
        purchase, ident = self._owner(), threading.get_ident()
        self._threads.pausing.add(ident)
        try:
            while purchase is not None and not self._waits(purchase):
                if wait():
                    return True
            return False
        finally:
            self._threads.pausing.discard(ident)

    def _waits(self, purchase: SteppedPurchase) -> bool:
        """Whether its own thread waits, for another one or for ever, or is over."""
        waits = self._threads.waits(purchase.thread)
        return purchase.point == "over" or (waits and not (purchase.stands or purchase.is_exchanging))

    def note(self) -> None:
        """A purchase pauses, or looks whether it still may wait."""
        if purchase := self._owner():
            purchase.pauses()

    def _counted_check(self, check_open: Callable[[], None]) -> Callable[[], None]:
        def counted() -> None:
            self.note()
            check_open()

        return counted

    # What the explorer asks for

    def reset(self, stock: int) -> None:
        self._shop.sale.reset(stock)

    def begin(self, guard: GuardFile, place: int) -> str:
        """A new guard, which remembers nothing, for the instance with this place; what is wrong with its file."""
        still.begin_run()
        self._file = guard.path
        self._making = still.stream(f"instance {place}")
        try:
            self._guard = guard.load()(self._shop)
        except BrokenGuard as error:
            return str(error)
        except Exception as error:
            return f"{Path(guard.path).name} cannot be used: its guard is not made: {type(error).__name__}: {error}."
        finally:
            self._making = None
        return ""

    def add(self, buyer: str, granularity: str, forgets: bool) -> dict[str, Any]:
        """A purchase that stands before the guard."""
        shop = self._shop
        know_the_sale(shop)
        purchase = SteppedPurchase(
            self._guard,
            buyer,
            instance=shop.settings.instance,
            inner=shop.listener,
            limit_s=LIMIT_S,
            granularity=granularity,
            id=buyer,
            forgets=forgets,
            chance=still.stream(f"purchase {buyer}"),
        )
        self._purchases[buyer] = purchase
        purchase.start()
        return self._show(purchase)

    def step(self, buyer: str, wait_s: float, fate: str) -> dict[str, dict[str, Any]]:
        """Let it go on to its next stop, with this fate of its command, and `look`."""
        self._purchases[buyer].fate = Fate(fate)
        self._purchases[buyer].go()
        return self.look(wait_s)

    def tries_in_vain(self, buyer: str, times: int) -> bool:
        """Whether so many more attempts of a purchase, of however many commands, go as the last one."""
        purchase = self._purchases[buyer]
        before = self._sent(purchase)
        return all(self._tries_in_vain(purchase) and self._sent(purchase) == before for _ in range(times))

    def _tries_in_vain(self, purchase: SteppedPurchase) -> bool:
        for _ in range(MOST_IN_AN_ATTEMPT):
            purchase.go()
            purchase.wait_stopped(ATTEMPT_S)
            if purchase.attempts.in_vain or not purchase.stands:
                break
        return purchase.attempts.in_vain and purchase.stands

    def move_clock(self, seconds: float) -> None:
        """It says, for purchases, that so much time has passed."""
        still.Chance.moved += seconds

    def lease(self) -> int:
        """That of its session, 0 if it has none."""
        session = self._shop.sessions._session
        return 0 if session is None or session.lost.is_set() else session.lease_id

    def thaw(self, seconds: float, buyer: str) -> None:
        """Go on after a pause of so many seconds, with this purchase first, if one is named."""
        still.Chance.offset += seconds
        with suppress(LockError):  # its lease is lost, as its lease thread would soon find
            self._shop.sessions.session().ensure()
        with suppress(LockError):
            self._shop.sessions.session()
        if buyer:
            self._purchases[buyer].go()

    def look(self, wait_s: float) -> dict[str, dict[str, Any]]:
        """All purchases, as soon as each stands or is over, or after so many seconds."""
        until = still.real_monotonic() + wait_s
        for purchase in self._purchases.values():
            purchase.wait_stopped(max(until - still.real_monotonic(), 0.0))
        if self._threads.are_busy():
            still.real_sleep(wait_s)
        return {buyer: self._show(purchase) for buyer, purchase in self._purchases.items()}

    def unordered(self) -> list[str]:
        """What purchases have used that cannot be stopped."""
        return sorted(wire.others)

    def where(self, buyer: str) -> str:
        """The lines of its guard's file in which a purchase is, the innermost first."""
        purchase = self._purchases[buyer]
        file = inspect.unwrap(type(self._guard).buy).__code__.co_filename
        stack = traceback.extract_stack(current_frames().get(purchase.thread.ident or 0))
        lines = [f"line {each.lineno} ({each.line})" for each in reversed(stack) if each.filename == file]
        return f"{Path(file).name}, {', called in '.join(lines or [f'line {purchase.line()}'])}"

    def forget(self) -> tuple[bool, list[str]]:
        """End all purchases and forget them; a session that they have used is followed by another one.

        Whether all have ended, and left no thread behind; and what was `unordered`.
        """
        has_ended, unordered = self._forget(), self.unordered()
        wire.others.clear()
        return has_ended, unordered

    def _forget(self) -> bool:
        until = still.real_monotonic() + END_S
        for purchase in self._purchases.values():
            purchase.end()
        for purchase in self._purchases.values():
            purchase.thread.join(max(until - still.real_monotonic(), 0.0))
        if any(purchase.thread.is_alive() for purchase in self._purchases.values()) or self._threads.of_guards():
            return False
        sent = [text for each in self._purchases.values() for text in each.attempts.texts]
        sessions, has_used_etcd = self._shop.sessions, any(map(ETCD_REQUEST.match, sent))
        self._purchases.clear()
        self._seen.clear()
        with suppress(LockError):  # what it has learned of other runs would show in the next one
            if has_used_etcd or sessions.session()._engine.core.queues:
                sessions.session().close()
        return self._await_session(until)

    def _show(self, purchase: SteppedPurchase) -> dict[str, Any]:
        receipt, thread = purchase.receipt, purchase.thread
        return {
            **purchase.seen(),
            "stops": purchase.stops,
            "paused": purchase.paused,
            "idle_s": 0.0 if purchase.stands or wire.pending or is_message_there() else self._threads.idle_s(),
            "is_asking": purchase.is_exchanging and not purchase.stands,
            "is_busy": self._threads.are_busy(),
            "clocks": sorted(purchase.clocks),
            "names": [thread.ident, thread.native_id],
            "order": purchase.order,
            "sold": receipt.order if receipt else None,
            "in_doubt": bool(receipt and receipt.in_doubt),
            "failure": purchase.failure,
            "lease": self.lease(),
            "writes": purchase.writes,
            "watching": sorted(purchase.watching),
            "sent": self._sent(purchase),
            "begins": purchase.attempts.begins,
            "in_vain": purchase.attempts.in_vain and purchase.attempts.begins,
        }

    def _sent(self, purchase: SteppedPurchase) -> list[str]:
        """What it has sent and been answered until it stood last: how often it asks while it waits is chance."""
        if purchase.granularity == COMMANDS or purchase.stands or purchase.is_over:
            self._seen[purchase.id] = purchase.attempts.texts
        return self._seen.get(purchase.id, [])


def serve(connection: Connection) -> None:
    """Be the worker of this connection until it ends."""
    worker: SteppedWorker | None = None
    with suppress(EOFError, ConnectionError):
        while True:
            name, arguments = connection.recv()
            result, problem = None, ""
            try:
                if worker is None:
                    worker, result = SteppedWorker(*arguments), os.getpid()
                else:
                    result = getattr(worker, name)(*arguments)
            except Exception as error:  # told to the explorer, which ends with it
                problem = f"{type(error).__name__}: {error}"
            connection.send((result, problem))


def main(path: str) -> None:
    """Make a worker for each connection, until this process is killed."""
    list(labs.modules("shop"))  # what `create_app` imports is not to be imported in each child
    names = [f"app.web.{name}" for name in ("access", "error_handlers", "health", "routes")]
    for name in (*names, *(f"labs.steps.wire.{name}" for name in ("calls", "files", "sockets"))):
        import_module(name)
    tempfile.gettempdir()  # tries at first whether it can write there
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the children need nobody to wait for them
    unfinished = f"{path}.unfinished"
    with Listener(unfinished) as listener:
        Path(unfinished).rename(path)
        gc.freeze()
        while True:
            connection = listener.accept()
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                serve(connection)
                os._exit(0)
            connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
