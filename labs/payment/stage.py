"""The shops, the provider beside them, and one sale from the first click to the verdict."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from app.sales.redis_client import connect
from labs.payment.contract import PENDING, REFUNDED, SUCCEEDED, Order, Outcome
from labs.payment.crowd import Crowd
from labs.payment.judge import Verdict, judge
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

    def __init__(self, directory: Path) -> None:
        super().__init__("provider", directory, 0, {LEDGER: str(directory / "provider.db")})

    def command(self) -> list[str]:
        options = ["--bind", f"127.0.0.1:{self.port}", "--threads", "300", "--no-control-socket", "--timeout", "0"]
        return [sys.executable, "-m", "gunicorn", *options, "labs.payment.provider:create_app()"]


class PaymentStack(Stack):
    """etcd, Redis, two shops, and the payment provider."""

    def __init__(self, directory: Path) -> None:
        self.provider = Provider(directory)
        env = {"FLASHSALE_PAYMENT_PROVIDER": self.provider.url, "FLASHSALE_LEASE_TTL": str(LEASE_S)}
        super().__init__(directory, ports="free", env={**env, "FLASHSALE_SALE": SALE})
        self.processes.append(self.provider)

    def stop(self) -> None:
        super().stop()
        self.provider.stop()

    def heal(self) -> None:
        """Thaw what is frozen, start what is dead; raises ServerError."""
        for process in self.processes:
            process.resume()
            process.launch()
        for process in self.processes:
            process.wait_ready()


@dataclass(frozen=True)
class SaleResult:
    """What came of a sale; `wall_s` is the time from the first click to the last answer."""

    way: str
    verdict: Verdict
    orders: Sequence[Order]
    charges: Mapping[str, str]
    wall_s: float

    @property
    def charged(self) -> int:
        """Charges whose money was taken, whether or not it was given back."""
        return sum(status in (SUCCEEDED, REFUNDED) for status in self.charges.values())

    @property
    def refunds(self) -> int:
        return sum(status == REFUNDED for status in self.charges.values())

    def paid_twice(self) -> tuple[str, list[str]] | None:
        """An item that was sold to several buyers, and their names."""
        for item in dict.fromkeys(order.item for order in self.orders):
            buyers = [order.payment.partition("/")[2] for order in self.orders if order.item == item]
            if len(buyers) > 1:
                return item, buyers
        return None


class Stage:
    """Sells under each way on one stack."""

    def __init__(self, stack: PaymentStack) -> None:
        self.stack = stack
        self.provider = ProviderClient(stack.provider.url)
        self._sales = itertools.count(1)

    def sell(
        self,
        way: str,
        items: int,
        play: Callable[[Crowd], None],
        on_progress: Callable[[int, float], None] = lambda orders, seconds: None,
    ) -> SaleResult:
        """Put items on the shelf, let `play` send the buyers, wait for the end of every payment, and judge.

        Raises:
            ServerError: the stack cannot go on.
        """
        with closing(connect(self.stack.redis.url, connections=2)) as client:
            shelf, crowd = Shelf(client, SALE, way), Crowd(way, f"{next(self._sales)}/")
            shelf.open(items)
            began = time.monotonic()
            play(crowd)
            while crowd.is_waiting:
                on_progress(len(shelf.orders()), time.monotonic() - began)
                time.sleep(POLL_S)
            wall_s = time.monotonic() - began
            self.stack.heal()
            return self._settled(way, items, shelf, crowd, wall_s)

    def _settled(self, way: str, items: int, shelf: Shelf, crowd: Crowd, wall_s: float) -> SaleResult:
        """The result when the ledgers agree, or when nothing changes any more."""
        deadline = time.monotonic() + SETTLE_S
        last, since = None, 0.0
        while True:
            held, orders, left = shelf.held(), shelf.orders(), shelf.left()
            charges = {key: status for key, status in self.provider.charges().items() if key.startswith(crowd.sale)}
            verdict = self._judge(items, left, orders, charges, crowd)
            if (now := (held, orders, left, charges)) != last:
                last, since = now, time.monotonic()
            is_over = not held and PENDING not in charges.values()
            is_quiet = verdict.is_exact or time.monotonic() - since > QUIET_S
            if (is_over and is_quiet) or time.monotonic() > deadline:
                return SaleResult(way, verdict, orders, charges, wall_s)
            time.sleep(POLL_S)

    def _judge(
        self, items: int, left: list[str], orders: list[Order], charges: dict[str, str], crowd: Crowd
    ) -> Verdict:
        gave_up = crowd.count(None)
        turned_away = gave_up + crowd.count(Outcome.SOLD_OUT, Outcome.TOO_LATE)
        return judge(items=items, left=left, orders=orders, charges=charges, turned_away=turned_away, gave_up=gave_up)
