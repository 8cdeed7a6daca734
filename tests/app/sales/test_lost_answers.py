"""A purchase whose answer from Redis is lost: truthful to the buyer, and resolved by the idempotency key."""

from __future__ import annotations

from hashlib import sha1

import pytest
import redis
from flask import Flask

from app import services
from app.guards import GUARDS
from app.sales.script_results import sending
from app.sales.scripts import TEXTS
from app.sales.transfer import Transfers
from tests.support.overtaking import answer_lost
from tests.support.shops import buy

SCRIPT = {name: sha1(text.encode()).hexdigest().encode() for name, text in TEXTS.items()}
IN_ONE = {"etcd-batch": "sell", "etcd-sharded": "shard_sell", "redis-lua": "sell", "cart": "cart"}
WAYS = [*(guard.name for guard in GUARDS), "cart"]


@pytest.fixture
def warm(app: Flask) -> Flask:
    """A shop whose scripts Redis knows already, and whose shards have items."""
    app.test_client().post("/stock/reset", json={"stock": 100})
    for guard in WAYS:
        assert buy(app, guard)["status"] == 200
    app.test_client().post("/stock/reset")
    for shard in range(4):
        Transfers(services.of(app).sale, "1", 1).refill(shard)
    return app


def orders(app: Flask) -> int:
    """How many there are in the ledger."""
    return int(app.test_client().get("/stock").get_json()["orders"])


@pytest.mark.parametrize("guard", WAYS)
def test_a_lost_write_is_in_doubt_and_the_key_resolves_it(warm: Flask, guard: str) -> None:
    """The buyer is told that it may have been bought; asking again with the same key gives the one order there is."""
    with answer_lost(SCRIPT[IN_ONE.get(guard, "write")]):
        lost = buy(warm, guard, key="k", buyer="ada")
    assert (lost["status"], lost["retry_after"], lost["outcome"], lost["in_doubt"]) == (503, "1", "unavailable", True)
    assert "same Idempotency-Key" in lost["detail"]
    assert orders(warm) == 1
    again = buy(warm, guard, key="k", buyer="ada")
    assert (again["status"], again["replayed"], orders(warm)) == (200, "true", 1)


@pytest.mark.parametrize("guard", [guard for guard in WAYS if guard not in IN_ONE])
def test_a_lost_read_is_not_in_doubt(warm: Flask, guard: str) -> None:
    """Where the answer to the read is lost, nothing was written, and the buyer is told so."""
    with answer_lost(SCRIPT["read"]):
        lost = buy(warm, guard)
    assert (lost["status"], lost["outcome"], lost["in_doubt"]) == (503, "unavailable", False)
    assert "Nothing was written" in lost["detail"]
    assert orders(warm) == 0
    assert buy(warm, guard)["status"] == 200


def test_a_redis_that_still_reads_its_data_has_written_nothing() -> None:
    """Redis says so instead of executing anything, so nothing is in doubt, although redis-py calls it a lost line."""
    with pytest.raises(redis.BusyLoadingError), sending():
        raise redis.BusyLoadingError("Redis is loading the dataset in memory")
