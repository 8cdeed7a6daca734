"""The parts of one process of the shop, its start and its end."""

from __future__ import annotations

import logging
from typing import Protocol, cast

import redis
from flask import Flask

from app.config.etcd import connect_etcd
from app.config.settings import Settings
from app.contract.clock import utc_now
from app.guards import guards
from app.locking.etcd_sessions import EtcdSessions
from app.sales.advice import describe
from app.sales.purchase import PurchaseListener
from app.sales.redis_client import TIMEOUT, connect, warm_up
from app.sales.refusals import PurchaseError
from app.sales.sale import Sale
from app.sales.stock import Stock
from app.telemetry.metrics import Metrics
from app.telemetry.section_log import SectionLog
from lock import Client, LockError

logger = logging.getLogger(__name__)

PROBE_TIMEOUT = 1.0  # seconds


def sale_of(settings: Settings, etcd: Client, *, connections: int, timeout: float = TIMEOUT) -> Sale:
    """The sale of these settings, with its own pool of connections; each call to Redis ends in `timeout` seconds."""
    client = connect(settings.redis_url, connections=connections, timeout=timeout)
    return Sale(client, settings.sale, etcd=etcd, stock=settings.stock, items=settings.items, timeout=timeout)


class Background(Protocol):
    """Background work of one process, in its own thread."""

    def start(self) -> None:
        """Start; etcd and Redis may be unreachable."""

    def close(self) -> None:
        """Ask it to stop; may be called more than once."""


class Services:
    """The parts of one process, for guards, routes and labs; connects to nothing before `warm_up` or the first request.

    Attributes:
        started: when the process began, ISO 8601, UTC.
        probed: a second `Sale` with its own pool, so that probes never take a buyer's connection.
        background: threads that labs add.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings, self.started = settings, utc_now()
        instance, ttl = settings.instance, settings.lease_ttl
        self.sessions = EtcdSessions(connect_etcd(settings), settings.queue_name, ttl=ttl, instance=instance)
        # One more than threads: a purchase that watches the stock needs a second connection to open the sale.
        self.sale = sale_of(settings, self.sessions.client, connections=settings.threads + 1)
        self.probed = sale_of(settings, self.sessions.client, connections=2, timeout=PROBE_TIMEOUT)
        self.stocks = {item: Stock(self.sale, item=item) for item in self.sale.keys_of}
        self.guards = {name: guard(self) for name, guard in guards().items()}
        self.metrics = Metrics(instance, self.guards)
        log = settings.section_log
        buys = {name: type(guard).buy for name, guard in self.guards.items()}
        self.listener = SectionLog(log, instance=instance, buys=buys) if log else PurchaseListener()
        self.background: list[Background] = []

    def warm_up(self) -> None:
        """Connect, and start the background work. A failure is logged only: the first purchase connects again."""
        try:
            warm_up(self.sale.client)
            self.sale.check()  # opens a sale that was never opened
            self.sessions.session()
        except (redis.RedisError, LockError, PurchaseError) as error:
            logger.warning("not ready yet: %s", describe(error))
        for work in self.background:
            work.start()

    def drain(self) -> None:
        """Refuse all purchases that wait for a lock; purchases that hold it finish."""
        for work in self.background:
            work.close()
        self.sessions.drain()

    def close(self) -> None:
        """Revoke the lease and close all connections."""
        for work in self.background:
            work.close()
        self.sessions.close()
        for sale in (self.sale, self.probed):
            sale.client.close()


def of(app: Flask) -> Services:
    """The services of `app`."""
    return cast(Services, app.extensions["services"])
