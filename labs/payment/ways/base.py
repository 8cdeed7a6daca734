"""What the ways to sell have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from app.locking.etcd_sessions import EtcdSessions
from labs.payment.contract import Outcome, Payment
from labs.payment.provider_client import ProviderClient
from labs.payment.shelf import Shelf


@dataclass(frozen=True)
class Way(ABC):
    """One way to sell an item and be paid for it."""

    name: ClassVar[str]
    shelf: Shelf
    provider: ProviderClient
    sessions: EtcdSessions

    @abstractmethod
    def buy(self, payment: Payment) -> Outcome:
        """Sell an item; a retry with the same key never buys a second one. Raises one of `FAILURES` of the shop."""

    def sweep(self) -> None:  # noqa: B027, for not all have something to do
        """End what was left behind. Each instance does this several times a second; raises as `buy`."""
