"""What the tests of shards share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.sales.sale import Sale
from labs.shards.claims import Claims
from labs.shards.shards import ShardedStock
from tests.support.shop_fixtures import app, crowd, make, process, sale, settings, stranger

SHARDS = 4


@pytest.fixture
def stock(sale: Sale) -> ShardedStock:
    """Ten items in the treasury, for four shards."""
    return ShardedStock(sale, "1", SHARDS, Claims(sale))


@pytest.fixture
def other(process: Callable[..., Sale]) -> ShardedStock:
    """The same in another instance."""
    sale = process()
    sale.snapshot()
    return ShardedStock(sale, "1", SHARDS, Claims(sale))
