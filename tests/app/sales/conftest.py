"""What the tests of the sale share."""

from __future__ import annotations

import pytest

from app.sales.inventory import Inventory
from app.sales.sale import Sale


@pytest.fixture
def inventory(sale: Sale) -> Inventory:
    """The sale's first item, as instance shop-a sells it."""
    return Inventory(sale, instance="shop-a")
