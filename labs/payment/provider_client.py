"""The payment provider as the shop sees it. Every call may be repeated, and raises `Unanswered`."""

from __future__ import annotations

from urllib.parse import quote

from labs.payment.calls import call
from labs.payment.contract import SUCCEEDED, Payment

CHARGE_TIMEOUT_S = 10.0  # a bank may take its time
TIMEOUT_S = 2.0


class ProviderClient:
    """A client of the provider at this URL."""

    def __init__(self, url: str) -> None:
        self._charges, self._refunds = f"{url}/charges", f"{url}/refunds"

    def charge(self, payment: Payment) -> bool:
        """Take the money, once for each key; False if the card is declined."""
        answer = call("POST", self._charges, {"card": payment.card}, key=payment.key, timeout=CHARGE_TIMEOUT_S)
        return bool(answer["status"] == SUCCEEDED)

    def find(self, key: str) -> str | None:
        """The status of a charge; `None` if the provider has not heard of it."""
        status: str | None = call("GET", f"{self._charges}/{quote(key)}", timeout=TIMEOUT_S)["status"]
        return status

    def refund(self, key: str) -> None:
        """Give the money of a charge back. Repeated, it is the same refund."""
        call("POST", self._refunds, {"charge": key}, key=f"refund of {key}", timeout=TIMEOUT_S)

    def charges(self) -> dict[str, str]:
        """The status of every charge, by its key."""
        return call("GET", self._charges, timeout=TIMEOUT_S)
