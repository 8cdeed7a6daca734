"""The parts of one process of the shop, its start and its end."""

from __future__ import annotations

import logging
from typing import cast

import redis
from flask import Flask

from app.config.settings import Settings
from app.guards import Tools, make_guards
from app.guards.cart import Carts
from app.locking.etcd_sessions import EtcdSessions
from app.sales.inventory import Inventory
from app.sales.opening import OpeningRecord
from app.sales.purchase import CART, SectionListener
from app.sales.redis_client import connect, warm_up
from app.sales.refusals import PurchaseError
from app.sales.sale import Sale
from app.sales.schedule import Opener, Schedule
from app.telemetry.metrics import Metrics
from app.telemetry.section_log import SectionLog
from app.web.busy import BusyAnswers
from app.web.health import Health
from app.web.routes import Shop
from lock import LockError

logger = logging.getLogger(__name__)


class Services:
    """Everything that the routes need; connects to no server before `warm_up` or the first request."""

    def __init__(self, app: Flask, settings: Settings) -> None:
        # One to spare: a purchase that watches needs a second connection to open the sale.
        self.redis = connect(settings.redis_url, connections=settings.threads + 1)
        queue = settings.queue_name
        self.sessions = EtcdSessions(settings.etcd_endpoints, queue, ttl=settings.lease_ttl, instance=settings.instance)
        self.host_names = frozenset({*settings.names, settings.host})
        record = OpeningRecord(self.sessions.client, settings.sale)
        stock, items, shards = settings.stock, settings.items, settings.shards
        self.sale = sale = Sale(self.redis, settings.sale, record=record, stock=stock, items=items, shards=shards)
        guards = make_guards(
            Tools(
                sale=sale,
                stocks={item: Inventory(sale, instance=settings.instance, item=item) for item in sale.keys_of},
                sessions=self.sessions,
                lock_timeout=settings.lock_timeout,
                lease_ttl=settings.lease_ttl,
            )
        )
        carts = Carts(sale, self.sessions, instance=settings.instance, lock_timeout=settings.lock_timeout)
        self.metrics = Metrics(settings.instance, [*guards, CART])
        self.busy = BusyAnswers(app, guards, self.metrics)
        log = settings.section_log
        self.listener = SectionLog(log, instance=settings.instance) if log else SectionListener()
        schedule, opener = Schedule(sale), record.election
        self.shop = Shop(settings, sale, schedule, opener, self.sessions, guards, carts, self.metrics, self.listener)
        self.opener = Opener(
            schedule,
            self.sessions.client,
            self.sessions.session,
            key=record.key,
            name=opener,
            instance=settings.instance,
            is_fenced=settings.opener == "fenced",
        )
        self.health = Health(settings, self.sessions)

    def warm_up(self) -> None:
        """Connect now rather than at the first purchase, which retries what fails here; start the opener."""
        try:
            warm_up(self.sale.client)
            self.sessions.session()
            self.sale.snapshot()  # opens it if it never was
        except (redis.RedisError, LockError, PurchaseError) as error:
            logger.warning("not ready yet: %s", error)
        self.opener.start()

    def drain(self) -> None:
        """Refuse all purchases that wait for a lock; holders go on."""
        self.opener.close()
        self.sessions.drain()

    def close(self) -> None:
        """Revoke the lease and close all connections."""
        self.opener.close()
        self.sessions.close()
        self.health.close()
        self.redis.close()
        self.listener.close()


def init_app(app: Flask, settings: Settings | None = None) -> Services:
    """Make the services of `app`."""
    settings = settings or Settings.from_environment()
    app.config["INSTANCE"] = settings.instance
    made = app.extensions["services"] = Services(app, settings)
    return made


def of(app: Flask) -> Services:
    """The services of `app`."""
    return cast(Services, app.extensions["services"])
