"""One instance of the shop under a guard from a file, in its own process with a limit of memory.

``python -m labs.grade.seller SOCKET`` listens there and serves one connection. Requests and answers are JSON:
``["open", [PATH, SETTINGS]]`` loads the guard and opens the shop, ``["buy", [CLICKS, SECONDS]]`` makes purchases at the
same time. What is wrong with a guard is told as a sentence, ``{"flaw": TEXT}``.
"""

from __future__ import annotations

import json
import linecache
import os
import resource
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

from app.config.settings import Settings
from app.guards.base import Guard
from app.sales.purchase import Purchase, Receipt
from app.sales.refusals import EXPECTED, refuse
from app.services import Services
from labs.grade.habits import Habits
from labs.steps.frames import current_frames
from labs.steps.guard_files import BrokenGuard, GuardFile

MEMORY = 2 * 1024**3  # bytes that the process may allocate
FILES = 64 * 1024**2  # of each file that it writes


class Flaw(Exception):
    """What is wrong with the guard, in a sentence."""


class Click(threading.Thread):
    """A purchase in its own thread."""

    def __init__(self, guard: Guard, path: str, *, buyer: str, item: str, think_s: float) -> None:
        super().__init__(daemon=True)
        self._guard, self._path = guard, path
        self._purchase = Purchase(buyer, guard.name, item, think_s)
        # What the buyer was told, for `labs.grade.sale`; `flaw` in it is what the guard did wrong.
        self.result: dict[str, Any] = {"buyer": buyer, "item": item, "sent_ms": time.time() * 1000}

    def run(self) -> None:
        self._purchase.began, self.result["sent_ms"] = time.monotonic(), time.time() * 1000
        try:
            told = self._told(self._receipt())
        except Flaw as flaw:
            told = {"flaw": str(flaw)}
        except BaseException as error:  # also SystemExit: a guard may raise anything
            told = {"flaw": f"the method buy raised {raised(error, self._path)}"}
        self.result = {**self.result, **told, "answered_ms": time.time() * 1000}

    def _receipt(self) -> Receipt:
        try:
            return self._guard.serve(self._purchase)
        except EXPECTED as error:
            return refuse(self._purchase, error)

    def _told(self, receipt: Any) -> dict[str, Any]:
        purchase = self._purchase
        if not isinstance(receipt, Receipt):
            said = f"{receipt!r:.40}" if receipt is None or isinstance(receipt, str) else f"a {type(receipt).__name__}"
            raise Flaw(f"the method buy returned {said}, and not a Receipt")
        if purchase.section is not None and purchase.section.left is None:
            raise Flaw("the method buy did not leave its critical section: it needs `with purchase.critical_section()`")
        if receipt.order not in (None, purchase.order):
            raise Flaw("the receipt names an order of another purchase")
        return {"outcome": receipt.outcome.value, "order": receipt.order, "detail": receipt.detail,
                "in_doubt": receipt.in_doubt}  # fmt: skip

    def stuck(self, seconds: float) -> dict[str, Any]:
        """The result of a purchase that is not over by now."""
        frame = current_frames().get(self.ident or 0)
        lines = [each for each in traceback.extract_stack(frame) if each.filename == self._path]
        where = f", and was in {line_of(self._path, lines[-1].lineno)}" if lines else ""
        return {**self.result, "flaw": f"the method buy was not over after {seconds:g} s{where}"}


class Seller:
    """The shop of this process, and its guard."""

    def open(self, path: str, settings: dict[str, str]) -> None:
        """Load the guard, and open the shop; raises Flaw."""
        os.environ.update(settings)
        self._path, self._habits = path, Habits(path)
        try:
            kind = GuardFile(path).load()
        except BrokenGuard as error:
            raise Flaw(str(error)) from error
        except BaseException as error:
            raise Flaw(f"the file raised {raised(error, path)}") from error
        shop = Services(Settings.from_environment())
        shop.warm_up()
        try:
            self._guard = kind(shop)
        except BaseException as error:
            raise Flaw(f"the guard could not be made: it raised {raised(error, path)}") from error

    def buy(self, clicks: Iterable[dict[str, Any]], seconds: float) -> list[dict[str, Any]]:
        """All of these at the same time; each is told as stuck that is not over in so many seconds."""
        threads, until = [Click(self._guard, self._path, **each) for each in clicks], time.monotonic() + seconds
        for each in threads:
            each.start()
        for each in threads:
            each.join(max(until - time.monotonic(), 0.0))
        return [each.stuck(seconds) if each.is_alive() else each.result for each in threads]

    def habits(self) -> list[str]:
        """What the guard has done that no guard may, a sentence for each."""
        return self._habits.found


def raised(error: BaseException, path: str) -> str:
    """An error, and the line of the guard's file in which it came up: ``ValueError: no in line 12: x = int(y)``."""
    lines = [each for each in traceback.extract_tb(error.__traceback__) if each.filename == path]
    where = f" in {line_of(path, lines[-1].lineno)}" if lines else ""
    said = f": {error}" if str(error) else ""
    return f"{type(error).__name__}{said:.300}{where}"


def line_of(path: str, number: int | None) -> str:
    """A line of a file, with its number."""
    return f"line {number}: {linecache.getline(path, number or 0).strip()}"


def serve(connection: Connection) -> None:
    """Answer requests until the connection ends."""
    seller = Seller()
    with suppress(EOFError, ConnectionError):
        while True:
            name, arguments = json.loads(connection.recv_bytes())
            method: Callable[..., Any] = getattr(seller, name)
            try:
                answer = {"result": method(*arguments)}
            except Flaw as flaw:
                answer = {"flaw": str(flaw)}
            connection.send_bytes(json.dumps(answer).encode())


def main(path: str) -> None:
    """Listen at `path`, and be the instance of the first that connects."""
    for limit, most in ((resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_FSIZE, FILES), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (most, most))
    listener = Listener(f"{path}.unfinished")
    Path(f"{path}.unfinished").rename(path)
    connection = listener.accept()
    os.chdir(os.environ["TMPDIR"])  # what a guard leaves in files, its next sale must not find
    serve(connection)
    os._exit(0)  # whatever threads a guard has left


if __name__ == "__main__":
    main(sys.argv[1])
