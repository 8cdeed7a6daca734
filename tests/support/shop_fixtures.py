"""Each test's own shop, on the shared etcd and Redis; and the stack that the tests of a module share."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app import create_app, services
from app.config.settings import Settings
from app.sales.redis_client import connect as connect_redis
from app.sales.sale import Sale
from app.sales.stock import Stock
from loadtest.stack.servers import Etcd, Redis
from loadtest.stack.stack import Stack
from lock import Mutex, Session, connect
from tests.support.shops import environment, open_sale


@pytest.fixture
def settings(etcd: Etcd, redis_server: Redis) -> Settings:
    """Settings of a sale that no other test has: ten items, and patience for what a test makes it wait for."""
    return Settings(
        etcd_endpoints=etcd.endpoint,
        redis_url=redis_server.url,
        instance="shop-a",
        sale=uuid.uuid4().hex,
        stock=10,
        lock_timeout=20.0,
        threads=16,
    )


@pytest.fixture
def env(settings: Settings, etcd: Etcd, redis_server: Redis) -> dict[str, str]:
    return environment(etcd, redis_server, settings.sale)


@pytest.fixture
def app(make: Callable[..., Flask]) -> Flask:
    """The shop in this process."""
    return make()


@pytest.fixture
def browser(app: Flask) -> FlaskClient:
    """A client of the shop."""
    return app.test_client()


@pytest.fixture
def sale(settings: Settings) -> Iterator[Sale]:
    """The sale in Redis, opened, with all its items."""
    with connect(settings.etcd_endpoints) as etcd:
        sale = services.sale_of(settings, etcd, connections=8)
        sale.reset()
        yield sale
        sale.client.close()


@pytest.fixture
def make(settings: Settings) -> Iterator[Callable[..., Flask]]:
    """Makes instances that differ in the settings given."""
    with ExitStack() as closing:

        def make(**changes: Any) -> Flask:
            made = create_app(settings.model_copy(update=changes))
            closing.callback(services.of(made).close)
            return made

        yield make


@pytest.fixture
def other(make: Callable[..., Flask]) -> Flask:
    """A second instance that sells the same items."""
    return make(instance="shop-b")


@pytest.fixture
def stranger(settings: Settings) -> Iterator[Mutex]:
    """The sale's mutex in the hands of another program."""
    with connect(settings.etcd_endpoints) as client, Session(client, ttl=10, name="stranger") as session:
        yield Mutex(session, f"flash-sale/{settings.sale}")


@pytest.fixture
def crowd() -> Iterator[ThreadPoolExecutor]:
    """Threads for buyers."""
    with ThreadPoolExecutor(16) as threads:
        yield threads


Process = Callable[..., Sale]


@pytest.fixture
def process(settings: Settings) -> Iterator[Process]:
    """Makes the sale as a process sees it that has just started."""
    with ExitStack() as closing:

        def start(
            etcd_endpoints: str = settings.etcd_endpoints,
            items: int = 1,
            timeout: float = 20.0,
            redis_url: str = settings.redis_url,
        ) -> Sale:
            client = closing.enter_context(connect_redis(redis_url, connections=20))
            etcd = closing.enter_context(connect(etcd_endpoints, timeout=timeout))
            return Sale(client, settings.sale, etcd=etcd, stock=10, items=items)

        yield start


@pytest.fixture
def item_stock(sale: Sale) -> Stock:
    """The sale's first item, as instance shop-a sells it."""
    return Stock(sale)


# The stack that the tests of a module share: one that idled on beside others would cost them processor time.


@pytest.fixture(scope="module")
def running_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two shops with etcd and Redis: leave all of it running."""
    with Stack(tmp_path_factory.mktemp("stack"), ports="free", env={"FLASHSALE_THREADS": "32"}) as running:
        yield running


@pytest.fixture
def stack(running_stack: Stack) -> Stack:
    """The shared stack, whatever the test before left: all of it runs, the sale is open and no purchase under way."""
    for process in running_stack.processes:
        if not process.running:
            process.start()
    open_sale(running_stack)
    return running_stack
