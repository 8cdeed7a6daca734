"""A stand-in for a payment provider: a process with a ledger of its own, and the contract of real ones.

``POST /charges`` takes money, ``GET /charges/KEY`` tells what became of it, ``POST /refunds`` gives it back. Both POSTs
need an Idempotency-Key: the same key again is the same charge. What happens to a charge is chosen by its card, as with
the test cards of real providers. A charge is in the ledger before it is answered, so kill -9 forgets none.
"""

from __future__ import annotations

import json
import os
import random
import socket
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from flask import Flask, request
from werkzeug.exceptions import BadRequest, Conflict

from labs.payment.contract import DECLINED, PENDING, REFUNDED, SUCCEEDED

LEDGER = "FLASHSALE_PAYMENT_LEDGER"
SLOW_S, LATE_S = (0.8, 0.8), (3.0, 3.0)


class Card(NamedTuple):
    """What becomes of a charge."""

    outcome: str = SUCCEEDED  # what its bank says in the end
    # Seconds that the bank takes, from and to; until then the charge is pending.
    decides_s: tuple[float, float] = (0.05, 0.3)
    # Seconds from the decision to the first answer; `None`: there is no answer, but to a retry.
    answers_s: float | None = 0.0


CARDS = {
    "good": Card(),
    "declined": Card(DECLINED),
    "slow": Card(decides_s=SLOW_S),
    "late": Card(decides_s=LATE_S),
    "late-answer": Card(answers_s=3.0),
    "lost-answer": Card(answers_s=None),
}


class Ledger:
    """Charges and refunds by idempotency key, in memory and in a file to which lines are added."""

    def __init__(self, path: Path) -> None:
        self.entries: dict[str, dict[str, Any]] = {}
        self._refunded: set[str] = set()
        self._lock = threading.Lock()
        self._file = path.open("a+", encoding="utf-8")
        self._file.seek(0)
        for line in self._file:
            self._take(**json.loads(line))

    def add(self, key: str, **entry: str | float) -> bool:
        """Write an entry down; False if its key is there already, or the money given back."""
        with self._lock:
            if key in self.entries or entry.get("charge") in self._refunded:
                return False
            self._file.write(json.dumps({"key": key, **entry}) + "\n")
            self._file.flush()
            self._take(key, **entry)
            return True

    def status(self, key: str) -> str | None:
        """What has become of a charge by now; `None` if there is none."""
        charge = self.entries.get(key, {})
        if "card" not in charge or key in self._refunded:
            return REFUNDED if key in self._refunded else None
        return PENDING if time.time() < charge["decided"] else CARDS[charge["card"]].outcome

    def _take(self, key: str, **entry: Any) -> None:
        self.entries[key] = entry
        self._refunded.add(entry.get("charge", ""))


def create_app() -> Flask:
    """The provider as a WSGI application, with the ledger that FLASHSALE_PAYMENT_LEDGER names."""
    app, ledger = Flask(__name__), Ledger(Path(os.environ[LEDGER]))

    @app.before_request
    def require_key() -> None:
        if request.method == "POST" and not request.headers.get("Idempotency-Key"):
            raise BadRequest("Send an Idempotency-Key: a retry without one would be another charge.")

    @app.post("/charges")
    def charge() -> tuple[dict[str, str | None], int]:
        key, name = request.headers["Idempotency-Key"], request.get_json().get("card")
        if name not in CARDS:
            raise BadRequest(f"Send a card: one of {', '.join(CARDS)}.")
        card = CARDS[name]
        is_new = ledger.add(key, card=name, decided=time.time() + random.uniform(*card.decides_s))
        if ledger.entries[key].get("card") != name:
            raise Conflict("This Idempotency-Key belongs to something else: use a new key.")
        answered = ledger.entries[key]["decided"] + ((is_new and card.answers_s) or 0.0)
        time.sleep(max(answered - time.time(), 0.0))
        if is_new and card.answers_s is None:
            request.environ["gunicorn.socket"].shutdown(socket.SHUT_RDWR)
        status = ledger.status(key)
        return {"charge": key, "status": status}, 402 if status == DECLINED else 200

    @app.get("/charges/<path:key>")
    def show(key: str) -> tuple[dict[str, str | None], int]:
        status = ledger.status(key)
        return {"charge": key, "status": status}, 200 if status else 404

    @app.get("/charges")
    def show_all() -> dict[str, str | None]:
        return {key: ledger.status(key) for key, entry in list(ledger.entries.items()) if "card" in entry}

    @app.post("/refunds")
    def refund() -> dict[str, str]:
        key, paid = request.headers["Idempotency-Key"], request.get_json().get("charge")
        if ledger.status(paid) == SUCCEEDED:
            ledger.add(key, charge=paid)
        if ledger.entries.get(key, {}).get("charge") != paid:
            raise Conflict("There is no such money to give back, or the Idempotency-Key belongs to something else.")
        return {"refund": key, "charge": paid, "status": REFUNDED}

    return app
