"""What the tests of the sale share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from app.config.settings import Settings
from app.sales.opening import OpeningRecord
from app.sales.redis_cluster import connect
from app.sales.sale import Sale
from app.sales.stock import Stock
from lock import connect as connect_etcd

Process = Callable[..., Sale]


@pytest.fixture
def process(settings: Settings) -> Iterator[Process]:
    """Makes the sale as a process sees it that has just started."""
    with ExitStack() as closing:
        client = closing.enter_context(connect(settings.redis_url, connections=20))

        def start(etcd_endpoints: str = settings.etcd_endpoints, items: int = 1, timeout: float = 20.0) -> Sale:
            etcd = closing.enter_context(connect_etcd(etcd_endpoints, timeout=timeout))
            return Sale(client, settings.sale, record=OpeningRecord(etcd, settings.sale), stock=10, items=items)

        yield start


@pytest.fixture
def item_stock(sale: Sale) -> Stock:
    """The sale's first item, as instance shop-a sells it."""
    return Stock(sale)
