"""The payment provider as the shop sees it over HTTP: each call has a deadline, and may be repeated."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from typing import Any

from labs.payment.contract import DECLINED, Payment

CHARGE_TIMEOUT_S = 10.0  # a bank may take its time
TIMEOUT_S = 2.0


class Unanswered(Exception):
    """The provider did not answer, or not in time: the money may have been taken. The same key asks again."""


class ProviderClient:
    """A client of the provider at this URL; every method raises `Unanswered`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def charge(self, payment: Payment) -> bool:
        """Take the money, once for each key; False if the card is declined."""
        answer = self._ask("/charges", {"card": payment.card}, key=payment.key, timeout=CHARGE_TIMEOUT_S)
        return bool(answer["status"] != DECLINED)

    def find(self, key: str) -> str | None:
        """The status of a charge; None if the provider has not heard of it."""
        try:
            return str(self._ask(f"/charges/{urllib.parse.quote(key)}")["status"])
        except NotThere:
            return None

    def refund(self, key: str) -> None:
        """Give the money of a charge back. Repeated, it is the same refund."""
        self._ask("/refunds", {"charge": key}, key=f"refund of {key}")

    def charges(self) -> dict[str, str]:
        """The status of every charge, by its key."""
        charges: dict[str, str] = self._ask("/charges")["charges"]
        return charges

    def _ask(self, path: str, body: Any = None, *, key: str = "", timeout: float = TIMEOUT_S) -> Any:
        headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(self._url + path, data, headers), timeout=timeout) as ok:
                return json.load(ok)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in (400, 402, 422):  # it takes no money for what it refuses
                    return {"status": DECLINED}
                if error.code == 404:
                    raise NotThere from None
                raise Unanswered(f"the payment provider answered {error.code} to {path}") from error
        except (OSError, ValueError, HTTPException) as error:
            raise Unanswered(f"the payment provider did not answer {path}: {error}") from error


class NotThere(Exception):
    """The provider has no such charge."""
