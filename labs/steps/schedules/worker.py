"""Instances without HTTP whose purchases stop at every point or command, made by fork as they are needed.

``python -m labs.steps.schedules.worker SOCKET`` listens there. Each connection is served by a new process, which has
session, connections and threads like an instance. Requests and answers are lines of JSON; the first request has the
settings of the instance.

A pause of an instance has to last beyond its lease. Nobody waits for that: the clock by which `lock` counts is moved on
when the instance is thawed. A lease that is revoked while that clock stands still would pass checks that fail after a
real pause.
"""

from __future__ import annotations

import time

_OFFSET = [0.0]


def _move_clock() -> None:
    """Have `lock`, which is imported later, read a clock that can be moved."""
    real = time.clock_gettime

    def clock_gettime(clock: int) -> float:
        return real(clock) + _OFFSET[0]

    time.clock_gettime = clock_gettime


if __name__ == "__main__":
    _move_clock()

import contextlib  # noqa: E402
import gc  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import traceback  # noqa: E402
from collections import Counter  # noqa: E402
from collections.abc import Callable  # noqa: E402
from importlib import import_module  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from app import create_app, services  # noqa: E402
from app.config.settings import Settings  # noqa: E402
from app.contract import labs  # noqa: E402
from app.guards import base, guards  # noqa: E402
from app.sales.commit_queue import CommitQueue  # noqa: E402
from app.server.cpu import run_on  # noqa: E402
from labs.steps import wire  # noqa: E402
from labs.steps.mistakes import mended, mistakes  # noqa: E402
from labs.steps.schedules.instances import TTL_S  # noqa: E402
from labs.steps.shop import COMMANDS, ETCD_REQUEST, SteppedPurchase, know_the_sale  # noqa: E402
from lock import CohortMutex, LockError  # noqa: E402

LIMIT_S = 600.0  # of a purchase, more than any schedule takes
START_S = 15.0
END_S = 2.0
POLL_S = 0.005  # the longest sleep of a purchase that polls
CHECKS = 4  # that a purchase may make without having tried in vain: acquiring makes two, and two more after a cancel
SLICE_S = 0.02  # of a wait for a thread lock, so that a purchase that waits is known soon


class SteppedWorker:
    """One instance, and its purchases by their buyers."""

    def __init__(self, environment: dict[str, str]) -> None:
        os.environ.update(environment)
        self._sleeps: Counter[int | None] = Counter()  # by thread; a wait that polls sleeps or checks in each attempt
        self._checks: Counter[int | None] = Counter()
        self._purchases: dict[str, SteppedPurchase] = {}
        self._seen: dict[str, list[str]] = {}
        self._stands_at = 0.0
        time.sleep = self._counted_sleep(time.sleep)
        time.monotonic = self._standing_clock(time.monotonic)
        base.SLICE_S, wire.life_ms = SLICE_S, TTL_S * 1000
        wire.wrap()
        settings = Settings.from_environment()
        if settings.cpu is not None:
            run_on(settings.cpu)
        self._shop = services.of(create_app(settings))
        self._shop.sessions.check_open = self._counted_check(self._shop.sessions.check_open)  # type: ignore[method-assign]
        self._shop.warm_up()
        self._await_session(time.monotonic() + START_S)  # on a busy machine etcd may not have answered

    def _await_session(self, until: float) -> bool:
        """Whether it has a session by then: purchases begin with one."""
        while time.monotonic() < until:
            with contextlib.suppress(LockError):
                self._shop.sessions.session().ensure()
                return True
            time.sleep(0.002)
        return False

    def _counted_sleep(self, sleep: Callable[[Any], None]) -> Callable[[Any], None]:
        def counted(seconds: Any) -> None:
            # A pause that checks as well is one attempt, not two.
            self._sleeps[threading.get_ident()] += 1 + self._checks.pop(threading.get_ident(), 0) // CHECKS
            if purchase := self._own_purchase():
                purchase.pauses()
            sleep(min(seconds, POLL_S) if purchase else seconds)

        return counted

    def _standing_clock(self, monotonic: Callable[[], float]) -> Callable[[], float]:
        """To a purchase no time passes: it does not know how long it stood before a command."""

        def standing() -> float:
            return self._stands_at if self._own_purchase() else monotonic()

        return standing

    def _counted_check(self, check_open: Callable[[], None]) -> Callable[[], None]:
        def counted() -> None:
            self._checks[threading.get_ident()] += 1
            if purchase := self._own_purchase():
                purchase.pauses()
            check_open()

        return counted

    def _own_purchase(self) -> SteppedPurchase | None:
        """That which is made by this thread."""
        purchases = list(self._purchases.values())  # another thread may add one
        return next((each for each in purchases if each.thread is threading.current_thread()), None)

    def reset(self, stock: int) -> None:
        self._shop.sale.reset(stock)

    def add(self, guard: str, buyer: str, grain: str) -> dict[str, Any]:
        """A purchase that stands before the guard."""
        shop = self._shop
        know_the_sale(shop)
        self._stands_at = time.monotonic()
        purchase = SteppedPurchase(
            shop.guards[guard],
            buyer,
            instance=shop.settings.instance,
            inner=shop.listener,
            limit_s=LIMIT_S,
            grain=grain,
            is_noted=True,
        )
        self._purchases[buyer] = purchase
        purchase.start()
        return self._show(purchase)

    def step(self, buyer: str, wait_s: float, fate: str) -> dict[str, dict[str, Any]]:
        """Let it go on to its next stop, with this fate of its command, and `look`."""
        self._purchases[buyer].fate = wire.Fate(fate)
        self._purchases[buyer].go()
        return self.look(wait_s)

    def lease(self) -> int:
        """That of its session, 0 if it has none."""
        session = self._shop.sessions._session
        return 0 if session is None or session.lost.is_set() else session.lease_id

    def thaw(self, seconds: float, buyer: str) -> None:
        """Go on after a pause of so many seconds, with this purchase first, if one is named."""
        _OFFSET[0] += seconds
        with contextlib.suppress(LockError):  # its lease is lost, as its lease thread would soon find
            self._shop.sessions.session().ensure()
        with contextlib.suppress(LockError):
            self._shop.sessions.session()
        if buyer:
            self._purchases[buyer].go()

    def look(self, wait_s: float) -> dict[str, dict[str, Any]]:
        """All purchases, as soon as each stands or is over, or after so many seconds."""
        until = time.monotonic() + wait_s
        for purchase in self._purchases.values():
            purchase.wait_settled(max(until - time.monotonic(), 0.0))
        return {buyer: self._show(purchase) for buyer, purchase in self._purchases.items()}

    def where(self, buyer: str) -> str:
        """The innermost lines in which a purchase is."""
        frame = sys._current_frames().get(self._purchases[buyer].thread.ident or 0)
        lines = traceback.extract_stack(frame)[-4:]
        return ", ".join(f"{Path(each.filename).name}:{each.lineno}" for each in reversed(lines))

    def forget(self) -> bool:
        """End all purchases and forget them; a session that they have used is followed by another one.

        False if one does not end.
        """
        until = time.monotonic() + END_S
        for purchase in self._purchases.values():
            purchase.end()
        for purchase in self._purchases.values():
            purchase.join(max(until - time.monotonic(), 0.0))
        if any(purchase.thread.is_alive() for purchase in self._purchases.values()):
            return False
        sent = (text for each in self._purchases.values() for attempt in each.attempts for text in attempt)
        sessions, has_used_etcd = self._shop.sessions, any(map(ETCD_REQUEST.match, sent))
        self._purchases.clear()
        self._seen.clear()
        with contextlib.suppress(LockError):  # what it has learned of other runs would show in the next one
            if has_used_etcd or sessions.session()._engine.core.queues:
                sessions.session().close()
        return self._await_session(until)

    def _show(self, purchase: SteppedPurchase) -> dict[str, Any]:
        receipt, section, thread = purchase.receipt, purchase.section, purchase.thread
        return {
            "id": purchase.id,  # it is in the name of its thread, too
            "point": purchase.point,
            "stands": purchase.stands,
            "stops": purchase.stops,
            "attempts": self._sleeps[thread.ident] + self._checks[thread.ident] // CHECKS,
            "queued": not purchase.stands and self._is_queued(thread),
            "token": section.token if section else None,
            "outcome": receipt.outcome.value if receipt else None,
            "order": purchase.order,
            "sold": receipt.order if receipt else None,
            "in_doubt": bool(receipt and receipt.in_doubt),
            "detail": receipt.detail if receipt else purchase.failure,
            "failure": purchase.failure,
            "lease": f"{self.lease():x}",
            "line": purchase.line(),
            "stock_left": receipt.stock if receipt else None,
            "stock_read": section.stock if section else None,
            "command": purchase.command,
            "writes": purchase.writes,
            "etcd_writes": wire.etcd_writes,
            "sent": self._sent(purchase),
            "begins": not purchase.attempts[-1],
            "in_vain": purchase.in_vain and not purchase.attempts[-1],
        }

    def _sent(self, purchase: SteppedPurchase) -> list[str]:
        """What it has sent and been answered until it stood last: how often it asks while it waits is chance."""
        if purchase.grain == COMMANDS or purchase.stands or purchase.is_over:
            self._seen[purchase.id] = [text for attempt in purchase.attempts for text in attempt]
        return self._seen.get(purchase.id, [])

    def _is_queued(self, thread: threading.Thread) -> bool:
        """Whether it waits in a commit queue or a cohort, of which another purchase of this instance has the turn."""
        frame = sys._current_frames().get(thread.ident or 0)
        while frame is not None:
            if frame.f_code is CommitQueue.buy.__code__ and "entry" in frame.f_locals:
                entry, queue = frame.f_locals["entry"], frame.f_locals["self"]
                return entry.result is None and queue._leader is not entry  # which leads, or decides for it
            if frame.f_globals.get("__name__") == CohortMutex.__module__:
                return True
            frame = frame.f_back
        return False


def serve(connection: socket.socket) -> None:
    """Be the worker of this connection until it ends."""
    with connection, connection.makefile("rwb") as stream:
        worker: SteppedWorker | None = None
        for line in stream:
            name, arguments = json.loads(line)
            try:
                if worker is None:
                    worker, result = SteppedWorker(arguments), os.getpid()
                else:
                    result = getattr(worker, name)(*arguments)
                answer: dict[str, Any] = {"result": result}
            except Exception as error:  # told to the explorer, which ends with it
                answer = {"error": f"{type(error).__name__}: {error}"}
            stream.write(json.dumps(answer).encode() + b"\n")
            stream.flush()


def main(path: str, *modules: str) -> None:
    """Make a worker for each connection, until this process is killed."""
    for kind in mistakes().values():
        guards().update({kind.name: kind, mended(kind).name: mended(kind)})
    for name in modules:
        import_module(name)
    list(labs.modules("shop"))  # what `create_app` imports is not to be imported in each child
    for name in ("access", "error_handlers", "health", "routes"):
        import_module(f"app.web.{name}")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the children need nobody to wait for them
    with socket.socket(socket.AF_UNIX) as listener:
        unfinished = f"{path}.unfinished"
        listener.bind(unfinished)
        listener.listen()
        Path(unfinished).rename(path)
        gc.freeze()
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                serve(connection)
                os._exit(0)
            connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
