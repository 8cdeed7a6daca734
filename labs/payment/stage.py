"""The shops, the provider beside them, and one sale from the first click to the verdict."""

from __future__ import annotations

import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from app.sales.redis_client import connect
from labs.payment.contract import PENDING, Order, Outcome
from labs.payment.crowd import Crowd
from labs.payment.judge import judge
from labs.payment.provider import LEDGER
from labs.payment.provider_client import ProviderClient
from labs.payment.shelf import Shelf
from loadtest.stack.apps import App
from loadtest.stack.stack import Stack

SALE = "demo"
SETTLE_S = 30.0  # at most, until every payment has its end
QUIET_S = 2.0  # several sweeps: what has not changed for so long stays wrong
POLL_S = 0.1
LEASE_S = 2


class Provider(App):
    """The payment provider as a process; its ledger outlives it."""

    probe = "/charges"

    def __init__(self, directory: Path) -> None:
        super().__init__("provider", directory, 0, {LEDGER: str(directory / "provider.jsonl")})

    def command(self) -> list[str]:
        options = ["--bind", f"127.0.0.1:{self.port}", "--threads", "300", "--no-control-socket", "--timeout", "0"]
        return [sys.executable, "-m", "gunicorn", *options, "labs.payment.provider:create_app()"]


@dataclass(frozen=True)
class SaleResult:
    """What came of a sale: the judge's findings, both ledgers, seconds from the first click to the last answer."""

    way: str
    findings: Mapping[str, int]
    orders: Sequence[Order]
    charges: Mapping[str, str]
    wall_s: float


class PaymentStack(Stack):
    """etcd, Redis, two shops, and the payment provider, with a client of it; sells under each way."""

    def __init__(self, directory: Path) -> None:
        self.provider = Provider(directory)
        env = {"FLASHSALE_PAYMENT_PROVIDER": self.provider.url, "FLASHSALE_LEASE_TTL": str(LEASE_S)}
        super().__init__(directory, ports="free", env={**env, "FLASHSALE_SALE": SALE})
        self.pages.append(self.provider)
        self.processes.append(self.provider)
        self.client = ProviderClient(self.provider.url)

    def heal(self) -> None:
        """Thaw what is frozen, start what is dead; raises ServerError."""
        for process in self.processes:
            process.resume()
            process.launch()
        for process in self.processes:
            process.wait_ready()

    def sell(
        self, way: str, items: int, play: Callable[[Crowd], None], on_progress: Callable[[str], None] = lambda _: None
    ) -> SaleResult:
        """Fill the shelf, let `play` send the buyers, and judge the end; raises ServerError or `Unanswered`."""
        with closing(connect(self.redis.url, connections=2)) as client:
            shelf, crowd = Shelf(client, SALE, way), Crowd(way, f"{secrets.token_hex(4)}/")
            shelf.open(items)
            began = time.monotonic()
            play(crowd)
            while crowd.is_waiting:
                on_progress(f"{way}: {len(shelf.read_all()[2])}/{items}, {time.monotonic() - began:.0f} s")
                time.sleep(POLL_S)
            wall_s = time.monotonic() - began
            self.heal()
            return SaleResult(way, *self._settled(items, shelf, crowd), wall_s)

    def _settled(self, items: int, shelf: Shelf, crowd: Crowd) -> tuple[dict[str, int], list[Order], dict[str, str]]:
        """Findings and ledgers when these agree, or when nothing changes any more."""
        told = Counter(crowd.outcomes.values())
        counts = {"gave_up": told[None], "unserved": told[None] + told[Outcome.SOLD_OUT] + told[Outcome.TOO_LATE]}
        since, last = (began := time.monotonic()), None
        while True:
            held, left, orders = shelf.read_all()
            charges = {key: what for key, what in self.client.charges().items() if key.startswith(crowd.sale)}
            findings, now = judge(items, left, orders, charges, **counts), time.monotonic()
            if (state := (held, left, orders, charges)) != last:
                last, since = state, now
            is_over = not held and PENDING not in charges.values()
            if (is_over and ("exact" in findings or now > since + QUIET_S)) or now > began + SETTLE_S:
                return findings, orders, charges
            time.sleep(POLL_S)
