"""Redis with deadlines, and without a second try of anything that may have happened."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
import redis
from flask import Flask

from app import services
from app.sales import redis_client
from app.sales.redis_client import NotSent, Refused, answered_until, warm_up
from app.sales.redis_cluster import connect
from app.sales.sale import Sale
from loadtest.ports import free_port
from loadtest.stack.servers import Redis
from tests.support.shops import WAIT_S, buy
from tests.support.waiting import wait_until

Make = Callable[..., Flask]


@pytest.fixture
def client(redis_server: Redis) -> Iterator[redis.Redis]:
    """A client with one connection."""
    with connect(redis_server.url, connections=1, timeout=2.0) as client:
        yield client


def test_no_connection_means_not_sent(redis_server: Redis) -> None:
    """If no server listens, a firewall drops the packets, or all connections are in use, nothing was sent."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as waiting:
        with suppress(TimeoutError):
            while True:
                waiting.enter_context(socket.create_connection(full.getsockname(), timeout=0.2))
        unavailable = [f"redis://127.0.0.1:{port}/0" for port in (free_port(), full.getsockname()[1])]
        for url in (*unavailable, "redis+cluster://127.0.0.1:1,127.0.0.1:2"):
            with connect(url, connections=1, timeout=0.2) as client, pytest.raises(NotSent):
                client.for_tag("sale").incr("counted")
    with connect(redis_server.url, connections=1, timeout=1.0) as client:
        in_use = client.connection_pool.get_connection()
        with pytest.raises(NotSent):
            client.incr("counted")
        client.connection_pool.release(in_use)


def test_warming_up_opens_every_connection(redis_server: Redis) -> None:
    """The warm-up makes as many connections as the pool has room for; one of them is there already."""
    with connect(redis_server.url, connections=7) as client:
        before = client.info("stats")["total_connections_received"]
        warm_up(client)  # they stand in Redis's backlog, and it takes them in at its own time
        wait_until(lambda: client.info("stats")["total_connections_received"] == before + 6)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("BUSY Redis is busy running a script.", "BUSY Redis is busy running a script."),
        ("EXECABORT Transaction discarded because of: OOM no memory left.", "OOM no memory left."),
        ("NOREPLICAS Not enough good replicas to write.", "NOREPLICAS Not enough good replicas to write."),
        ("MASTERDOWN Link with MASTER is down.", "MASTERDOWN Link with MASTER is down."),
        ("MISCONF The disk is full. script: 0, on @user_script:1.", "MISCONF The disk is full."),
    ],
)
def test_a_refusal_is_known_in_all_its_forms(client: redis.Redis, answer: str, said: str) -> None:
    """What a command, a transaction and a script say of a refused write becomes one error."""
    with pytest.raises(Refused) as caught:
        client.eval("return redis.error_reply(ARGV[1])", 0, answer)
    assert str(caught.value) == f"Redis refused: {said}"


def test_a_wrong_password_is_not_taken_for_a_lost_connection(redis_server: Redis) -> None:
    """The error of a refused login stays what it is."""
    url = f"redis://shop:wrong@127.0.0.1:{redis_server.port}/0"
    with connect(url, connections=1) as client, pytest.raises(redis.AuthenticationError):
        client.incr("counted")


def test_a_node_of_a_cluster_may_have_an_ipv6_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connections go to the address that the node announces."""
    monkeypatch.setattr(redis.Redis, "execute_command", lambda *_: [[0, 16383, ["::1", 7000, "its id"]]])
    with connect("redis+cluster://127.0.0.1:1", connections=1) as client:
        nodes: Any = client.nodes
        node = nodes.pool_of(0).connection_kwargs
    assert (node["host"], node["port"]) == ("::1", 7000)


def test_what_no_replica_has_is_in_doubt(make: Make, sale: Sale, monkeypatch: pytest.MonkeyPatch) -> None:
    """With FLASHSALE_REDIS_REPLICAS a purchase, its retry, and a reset are not taken for done without a replica."""
    monkeypatch.setattr(redis_client, "WAIT_MS", 1)
    shop = make(redis_replicas=1, items=2)
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


def test_a_name_that_cannot_be_resolved_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connecting ends within its second, also while the resolver still looks for a server that was removed."""
    found = threading.Event()

    def search(*_: Any) -> Any:
        assert found.wait(WAIT_S)
        raise OSError("not known")

    monkeypatch.setattr(socket, "getaddrinfo", search)
    with (
        connect("redis://removed.example:6379/0", connections=1) as client,
        pytest.raises(NotSent, match="Timeout connecting"),
    ):
        client.ping()
    assert not found.is_set()
    found.set()


def test_what_is_left_of_a_purchase_bounds_each_answer(fresh_redis: Redis) -> None:
    """A frozen Redis holds a purchase up no longer than its own time, although an answer might take a minute."""
    with connect(fresh_redis.url, connections=1, timeout=60.0) as client:
        client.ping()
        fresh_redis.pause()
        try:
            with answered_until(time.monotonic()), pytest.raises(redis.TimeoutError):
                client.ping()
        finally:
            fresh_redis.resume()
        assert client.ping()
