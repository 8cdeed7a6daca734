"""The schedule of a sale as its clients set it: rushes and faults."""

from __future__ import annotations

import time

from loadtest.shop_client.sale import SaleClient


def schedule(sale: SaleClient, stock: int, opens_in_s: int) -> float:
    """Have a leader open the sale; when, at the earliest, in seconds since the epoch. Raises SaleError."""
    sale.generation = None  # the opening makes another one
    opens_at = time.time() + opens_in_s
    sale.shops.ask("POST", "/sale/schedule", {"stock": stock, "opens_in_s": opens_in_s}, as_admin=True)
    return opens_at
