"""A purchase whose answer from Redis is lost: truthful to the buyer, and resolved by the idempotency key."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import redis
from flask import Flask

from app import create_app, services
from app.config.settings import Settings
from app.sales.script_results import sending
from loadtest.stack.servers import Redis
from tests.support.lossy_proxy import LossyProxy

# What the write of each guard is known by on the wire; of a fenced purchase, the last argument but the key.
WRITE = {
    "none": b"RPUSH",
    "thread": b"RPUSH",
    "etcd": b"\r\n9\r\n",
    "etcd-unfenced": b"RPUSH",
    "etcd-cohort": b"\r\n9\r\n",
    "etcd-batch": b"EVALSHA",
    "redis-lock": b"RPUSH",
    "redis-watch": b"RPUSH",
    "redis-lua": b"EVALSHA",
}
READ = {guard: b"\r\nGET\r\n" for guard, write in WRITE.items() if write == b"RPUSH"}
READ |= dict.fromkeys(("etcd", "etcd-cohort"), b"EVALSHA")


@pytest.fixture
def lossy(redis_server: Redis) -> Iterator[LossyProxy]:
    """The way from the shop to Redis."""
    with LossyProxy(redis_server.port) as proxy:
        yield proxy


@pytest.fixture
def app(settings: Settings, lossy: LossyProxy) -> Iterator[Flask]:
    """A shop on that way, whose scripts Redis knows already."""
    app = create_app(dataclasses.replace(settings, redis_url=f"redis://127.0.0.1:{lossy.port}/0", lease_ttl=2))
    browser = app.test_client()
    for guard in WRITE:
        assert browser.post(f"/stock/reduce?guard={guard}").status_code == 200
    browser.post("/stock/reset")
    yield app
    services.of(app).close()


@pytest.mark.parametrize("guard", WRITE)
def test_a_lost_write_is_in_doubt_and_the_key_resolves_it(app: Flask, lossy: LossyProxy, guard: str) -> None:
    """The buyer is told that it may have been bought; asking again with the same key gives the one order there is."""
    browser, headers = app.test_client(), {"Idempotency-Key": "k"}
    lossy.lose_answer_to(WRITE[guard])
    lost = browser.post(f"/stock/reduce?guard={guard}&buyer=ada", headers=headers)
    assert lost.status_code == 503
    assert (lost.get_json()["outcome"], lost.get_json()["in_doubt"]) == ("unavailable", True)
    assert "same Idempotency-Key" in lost.get_json()["detail"]
    assert lost.headers["Retry-After"] == "1"
    assert browser.get("/stock").get_json()["orders"] == 1

    again = browser.post(f"/stock/reduce?guard={guard}&buyer=ada", headers=headers)
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (200, "true")
    assert browser.get("/stock").get_json()["orders"] == 1


@pytest.mark.parametrize("guard", READ)
def test_a_lost_read_is_not_in_doubt(app: Flask, lossy: LossyProxy, guard: str) -> None:
    """Where the answer to the read is lost, nothing was written, and the buyer is told so."""
    browser = app.test_client()
    lossy.lose_answer_to(READ[guard])
    lost = browser.post(f"/stock/reduce?guard={guard}")
    assert lost.status_code == 503
    assert (lost.get_json()["outcome"], lost.get_json()["in_doubt"]) == ("unavailable", False)
    assert "Nothing was written" in lost.get_json()["detail"]
    assert browser.get("/stock").get_json()["orders"] == 0
    assert browser.post(f"/stock/reduce?guard={guard}").status_code == 200


def test_a_redis_that_still_reads_its_data_has_written_nothing() -> None:
    """Redis says so instead of executing anything, so nothing is in doubt, although redis-py calls it a lost line."""
    with pytest.raises(redis.BusyLoadingError), sending():
        raise redis.BusyLoadingError("Redis is loading the dataset in memory")
