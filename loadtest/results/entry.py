"""An order with the ledger in which it stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.contract.orders import Order


@dataclass(frozen=True)
class Entry(Order):
    """An order as it was found; of one `ledger`, entries are in the order in which they were written.

    Attributes:
        ledger: the name of the place that has it; empty for the only one.
    """

    ledger: str = ""

    @classmethod
    def read(cls, text: str, ledger: str) -> Entry:
        """The entry that Redis has in a ledger; raises ValueError."""
        return cls(**vars(Order.decode(text)), ledger=ledger)


def by_ledger(entries: Iterable[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """The entries of each item in each ledger."""
    ledgers: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        ledgers.setdefault((entry.item, entry.ledger), []).append(entry)
    return ledgers
