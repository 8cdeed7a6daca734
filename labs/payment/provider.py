"""A stand-in for a payment provider: a process with a ledger of its own, and the contract of real ones.

``POST /charges`` takes money, ``GET /charges/KEY`` tells what became of it, ``POST /refunds`` gives it back. Both POSTs
need an Idempotency-Key: the same key again is the same charge. A charge is pending until the card's bank has answered,
and that is written down before it is answered: kill -9 of this process forgets nothing. What happens to a charge is
chosen by its card, as with the test cards of real providers.

    FLASHSALE_PAYMENT_LEDGER=/tmp/ledger gunicorn --threads 300 'labs.payment.provider:create_app()'
"""

from __future__ import annotations

import os
import random
import socket
import sqlite3
import threading
import time
from typing import Any, NamedTuple

from flask import Flask, request
from werkzeug.exceptions import BadRequest, Conflict, NotFound, UnprocessableEntity

from labs.payment.contract import DECLINED, PENDING, REFUNDED, SUCCEEDED

LEDGER = "FLASHSALE_PAYMENT_LEDGER"
USUAL_S = (0.05, 0.3)
SLOW_S, LATE_S = 0.8, 2.5


class Card(NamedTuple):
    """What becomes of a charge.

    Attributes:
        outcome: what its bank says in the end.
        decides_s: between how many seconds the bank takes; until then the charge is pending.
        answers_s: seconds from the decision to the answer.
        is_answered: whether the first request gets its answer; a retry always does.
    """

    outcome: str = SUCCEEDED
    decides_s: tuple[float, float] = USUAL_S
    answers_s: float = 0.0
    is_answered: bool = True


CARDS = {
    "good": Card(),
    "declined": Card(DECLINED),
    "slow": Card(decides_s=(SLOW_S, SLOW_S)),
    "late": Card(decides_s=(LATE_S, LATE_S)),
    "late-answer": Card(answers_s=LATE_S),
    "lost-answer": Card(is_answered=False),
}


class Ledger:
    """All charges and refunds, in a file. A charge has an outcome from `decided` (seconds since the epoch) on."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.executescript(
            """
            PRAGMA journal_mode = WAL;
            CREATE TABLE IF NOT EXISTS charges (key TEXT PRIMARY KEY, card TEXT, decided REAL);
            CREATE TABLE IF NOT EXISTS refunds (key TEXT PRIMARY KEY, charge TEXT UNIQUE);
            """
        )

    def charge(self, key: str, card: str) -> tuple[float, bool]:
        """Note a charge; when it is decided, and whether the key is new. Another card under it is an error."""
        decided = time.time() + random.uniform(*CARDS[card].decides_s)
        is_new = self._write("INSERT OR IGNORE INTO charges VALUES (?, ?, ?)", key, card, decided)
        ((noted, decided),) = self._read("SELECT card, decided FROM charges WHERE key = ?", key)
        if noted != card:
            raise UnprocessableEntity("This Idempotency-Key belongs to a charge of another card: use a new key.")
        return decided, is_new

    def refund(self, key: str, charge: str) -> None:
        """Give the money of a charge back, once."""
        if (status := self.status(charge)) not in (SUCCEEDED, REFUNDED):
            raise Conflict(f"The charge {charge} is {status}: there is nothing to give back.")
        self._write("INSERT OR IGNORE INTO refunds VALUES (?, ?)", key, charge)
        if not self._read("SELECT 1 FROM refunds WHERE key = ? AND charge = ?", key, charge):
            raise Conflict(f"The charge {charge} was refunded under another key, or this key is another refund's.")

    def status(self, key: str) -> str:
        statuses = self.statuses("WHERE charges.key = ?", key)
        if key not in statuses:
            raise NotFound(f"There is no charge {key}.")
        return statuses[key]

    def statuses(self, where: str = "", *values: str) -> dict[str, str]:
        """The status of each charge, by its key."""
        rows = self._read(
            "SELECT charges.key, card, decided, refunds.key FROM charges LEFT JOIN refunds ON charge = charges.key "
            + where,
            *values,
        )
        now = time.time()
        return {
            key: REFUNDED if refund else PENDING if now < decided else CARDS[card].outcome
            for key, card, decided, refund in rows
        }

    def _read(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(query, values).fetchall()

    def _write(self, statement: str, *values: str | float) -> bool:
        with self._lock:
            return self._database.execute(statement, values).rowcount > 0


def create_app() -> Flask:
    """The provider as a WSGI application, with the ledger that FLASHSALE_PAYMENT_LEDGER names."""
    app, ledger = Flask(__name__), Ledger(os.environ[LEDGER])

    @app.post("/charges")
    def charge() -> tuple[dict[str, str], int]:
        key, card = _key(), _member("card")
        if card not in CARDS:
            raise BadRequest(f"There is no such card: use one of {', '.join(CARDS)}.")
        decided, is_new = ledger.charge(key, card)
        time.sleep(max(decided + CARDS[card].answers_s * is_new - time.time(), 0.0))
        if is_new and not CARDS[card].is_answered:
            request.environ["gunicorn.socket"].shutdown(socket.SHUT_RDWR)
        status = ledger.status(key)
        return {"charge": key, "status": status}, 402 if status == DECLINED else 200

    @app.get("/charges/<path:key>")
    def show(key: str) -> dict[str, str]:
        return {"charge": key, "status": ledger.status(key)}

    @app.get("/charges")
    def show_all() -> dict[str, dict[str, str]]:
        return {"charges": ledger.statuses()}

    @app.post("/refunds")
    def refund() -> dict[str, str]:
        key, charge = _key(), _member("charge")
        ledger.refund(key, charge)
        return {"refund": key, "charge": charge, "status": REFUNDED}

    @app.get("/livez")
    def livez() -> dict[str, str]:
        return {"status": "alive"}

    return app


def _key() -> str:
    if key := request.headers.get("Idempotency-Key"):
        return key
    raise BadRequest("Send an Idempotency-Key: a retry without one would charge twice.")


def _member(name: str) -> str:
    body = request.get_json()
    if isinstance(body, dict) and isinstance(body.get(name), str):
        return str(body[name])
    raise BadRequest(f'Send JSON with the member "{name}".')
