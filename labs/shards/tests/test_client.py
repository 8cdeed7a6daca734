"""Redis as a cluster, and replicas that are waited for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
import redis
from flask import Flask

from app import create_app, services
from app.config.settings import Settings, SettingsError
from app.sales.redis_client import NotSent, connect
from app.sales.sale import Sale
from labs.shards import client as client_module
from labs.shards.client import ClusterClient
from loadtest.ports import free_port
from loadtest.results.record import Sample
from loadtest.shop_client.sale import SaleClient as RushSale
from loadtest.shop_client.shops import SaleError
from tests.support.shops import buy

Make = Callable[..., Flask]


def test_a_node_of_a_cluster_may_have_an_ipv6_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connections go to the address that the node announces."""
    monkeypatch.setattr(redis.Redis, "execute_command", lambda *_: [[0, 16383, ["::1", 7000, "its id"]]])
    with connect("redis+cluster://127.0.0.1:1", connections=1) as client:
        assert isinstance(client, ClusterClient)
        node = client.nodes.pool_of(0).connection_kwargs
    assert (node["host"], node["port"]) == ("::1", 7000)


def test_a_cluster_without_a_node_means_not_sent() -> None:
    """As of a single Redis: nothing was executed."""
    with connect("redis+cluster://127.0.0.1:1,127.0.0.1:2", connections=1, timeout=0.2) as client:
        with pytest.raises(NotSent):
            client.incr("{sale}counted")
        pipe = client.pipeline()
        pipe.incr("{sale}counted")
        with pytest.raises(NotSent):
            pipe.execute()


def test_the_rush_cannot_read_a_cluster_without_a_node() -> None:
    """One line says what to do; a glance tells nothing."""
    with closing(RushSale([], redis_url=f"redis+cluster://127.0.0.1:{free_port()}", etcd="", name="t")) as sale:
        with pytest.raises(SaleError, match=r"The ledger cannot be read: .* See that Redis runs"):
            sale.ledger()
        assert sale.sample(1.0) == Sample(1.0, None, None, None, None)


@pytest.mark.parametrize(("name", "value"), [("SHARDS", "0"), ("SHARDS", "many"), ("REDIS_REPLICAS", "6")])
def test_a_setting_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """The shop does not start; the message says which variable, and what to give."""
    monkeypatch.setenv(f"FLASHSALE_{name}", value)
    with pytest.raises(SettingsError, match=f"^FLASHSALE_{name}: "):
        create_app(Settings())


def test_what_no_replica_has_is_in_doubt(make: Make, sale: Sale, monkeypatch: pytest.MonkeyPatch) -> None:
    """With FLASHSALE_REDIS_REPLICAS a purchase, its retry, and a reset are not taken for done without a replica."""
    monkeypatch.setattr(client_module, "WAIT_MS", 1)
    monkeypatch.setenv("FLASHSALE_REDIS_REPLICAS", "1")
    shop = make(items=2)
    with monkeypatch.context() as patch:
        patch.setattr(services.of(shop).sale.client, "replicas", 0)
        assert buy(shop, "redis-lua")["outcome"] == "sold"
    ways = ("redis-lua", "redis-lua", "etcd-batch", "etcd-sharded", "etcd")
    answers = [buy(shop, guard, key="k") for guard in ways]
    assert [answer["outcome"] for answer in answers] == ["unavailable"] * 5
    # The last two have only claimed the key, or read.
    assert [answer["in_doubt"] for answer in answers] == [True, True, True, False, False]
    assert "0 of 1 replicas" in answers[0]["detail"]
    assert sale.snapshot().orders == 2  # the first one, and that of the key
    assert shop.test_client().post("/stock/reset").status_code == 503
