"""etcd fails and recovers: no sale under its lock without it, and no restart of the shop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
import pytest
from flask import Flask

from app import services
from loadtest.stack.servers import Etcd
from lock.etcd.transport import rpc
from tests.support.shops import WAYS, at_once, buy, refused
from tests.support.waiting import wait_until


@pytest.fixture
def shop(make: Callable[..., Flask], fresh_etcd: Etcd) -> Flask:
    """A shop with its own etcd that has sold one item under the mutex."""
    shop = make(etcd_endpoints=fresh_etcd.endpoint, lease_ttl=2, lock_timeout=1.0, stock=20)
    wait_until(lambda: sells(shop, "etcd"))
    return shop


def sells(app: Flask, guard: str) -> bool:
    """Whether a purchase succeeds."""
    return bool(buy(app, guard)["status"] == 200)


def test_an_outage_is_not_taken_for_a_queue(make: Callable[..., Flask], fresh_etcd: Etcd) -> None:
    """Purchases that wait while etcd is frozen hear that it does not answer, not that others were first."""
    app = make(etcd_endpoints=fresh_etcd.endpoint, lock_timeout=1.0, lease_ttl=60)
    wait_until(lambda: sells(app, "etcd"))  # so it need not ask etcd what was opened
    fresh_etcd.pause()
    for guard in ("etcd", "etcd-cohort", "etcd-batch"):
        answers = at_once(8, lambda _: buy(app, guard))  # noqa: B023
        assert not [answer for answer in answers if answer["outcome"] != "unavailable" or answer["in_doubt"]]
    fresh_etcd.resume()


@contextmanager
def out_of_space(etcd: Etcd) -> Iterator[None]:
    """etcd takes no writes, as when its quota is reached."""
    with grpc.insecure_channel(etcd.endpoint) as channel:
        alarm = rpc.MaintenanceStub(channel).Alarm
        alarm(rpc.AlarmRequest(action="ACTIVATE", alarm="NOSPACE"), timeout=20)
        yield
        alarm(rpc.AlarmRequest(action="DEACTIVATE", alarm="NOSPACE"), timeout=20)


def test_an_etcd_that_takes_no_writes(make: Callable[..., Flask], fresh_etcd: Etcd) -> None:
    """Purchases under its lock answer 503 with what etcd says, not in doubt; the others sell, and a reset works."""
    app = make(etcd_endpoints=fresh_etcd.endpoint, stock=100)
    ways = [way for way in WAYS if "etcd" in way]
    browser = app.test_client()
    wait_until(lambda: sells(app, "etcd"))
    with out_of_space(fresh_etcd):
        for way in ways:
            detail = refused(buy(app, way))
            assert "database space exceeded" in detail
            assert detail.endswith("Nothing was written; try again when etcd takes writes.")
        assert browser.post("/stock/reset").get_json()["orders"] == 0
        assert all(sells(app, way) for way in set(WAYS) - set(ways))
    for way in ways:
        wait_until(lambda: sells(app, way))  # noqa: B023


def test_guards_without_a_lock_in_etcd_do_not_notice_that_it_is_down(
    make: Callable[..., Flask], shop: Flask, fresh_etcd: Etcd
) -> None:
    """They sell before and after a reset, also at an instance that starts then; a guard with one refuses."""
    without = [way for way in WAYS if "etcd" not in way]
    fresh_etcd.stop()
    newcomer = make(etcd_endpoints=fresh_etcd.endpoint, instance="shop-b", stock=20)
    for app in (shop, newcomer):
        assert {way: buy(app, way)["outcome"] for way in without} == dict.fromkeys(without, "sold")
        assert app.test_client().post("/stock/reset").get_json()["orders"] == 0
        assert buy(app, "etcd")["status"] == 503  # unavailable, or the session is lost just then
    assert {buy(app, way)["outcome"] for app in (shop, newcomer) for way in without} == {"sold"}


@pytest.mark.parametrize("outage", ["stop", "pause"])
def test_etcd_unavailable_longer_than_the_lease(shop: Flask, fresh_etcd: Etcd, outage: str) -> None:
    """While etcd is stopped or frozen nothing is sold under the mutex; once it answers, sales go on."""
    browser = shop.test_client()
    session = services.of(shop).sessions.session()
    getattr(fresh_etcd, outage)()
    refused(buy(shop))
    wait_until(session.lost.is_set)
    refused(buy(shop))
    refused(buy(shop, "etcd-unfenced"))
    assert browser.get("/stock").get_json()["orders"] == 1
    fresh_etcd.start() if outage == "stop" else fresh_etcd.resume()
    wait_until(lambda: sells(shop, "etcd"), timeout=20)
    assert browser.get("/stock").get_json()["verdict"] == "EXACT"
