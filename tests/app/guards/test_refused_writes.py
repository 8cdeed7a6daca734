"""Redis refuses writes, or its answer is lost: nothing is sold unnoticed, and the answer says what to do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import pytest
import redis
from flask import Flask

from app import services
from app.guards import GUARDS
from app.sales.scripts import SHAS, TEXTS, sending
from app.sales.transfer import Transfers
from loadtest.stack.servers import Redis
from tests.support.overtaking import answer_lost
from tests.support.shops import buy
from tests.support.waiting import wait_until

WAYS = [*(guard.name for guard in GUARDS), "cart"]


@contextmanager
def read_only(server: Redis) -> Iterator[str]:
    """Redis is the replica of a server that is unavailable."""
    with redis.Redis(port=server.port) as admin:
        admin.replicaof("127.0.0.1", "1")
        yield "read only replica"
        admin.replicaof("NO", "ONE")


@contextmanager
def out_of_memory(server: Redis) -> Iterator[str]:
    with redis.Redis(port=server.port) as admin:
        admin.config_set("maxmemory", 1)
        yield "used memory > 'maxmemory'"
        admin.config_set("maxmemory", 0)


@contextmanager
def busy(server: Redis) -> Iterator[str]:
    """Redis runs a script that does not end."""

    def loop() -> None:
        with redis.Redis(port=server.port) as other, suppress(redis.ResponseError):
            other.eval("while true do end", 0)

    def is_busy() -> bool:
        try:
            return not admin.ping()
        except redis.ResponseError:
            return True

    with redis.Redis(port=server.port) as admin:
        admin.config_set("lua-time-limit", 1)
        script = threading.Thread(target=loop)
        script.start()
        wait_until(is_busy)
        yield "busy running a script"
        admin.script_kill()
        script.join()


@pytest.fixture
def app(make: Callable[..., Flask], fresh_redis: Redis) -> Flask:
    """A shop with its own Redis that has sold one item."""
    app = make(redis_url=fresh_redis.url, stock=20)
    assert buy(app, "none")["status"] == 200
    return app


@pytest.mark.parametrize("state", [read_only, out_of_memory, busy])
def test_a_refused_write_is_unavailable(
    app: Flask, fresh_redis: Redis, state: Callable[[Redis], AbstractContextManager[str]]
) -> None:
    """Every purchase and a reset answer 503 with the message of Redis, not in doubt; afterwards all of them sell."""
    browser = app.test_client()
    with state(fresh_redis) as said:
        for way in WAYS:
            answer = buy(app, way)
            assert (answer["status"], answer["outcome"]) == (503, "unavailable"), way
            assert (answer["in_doubt"], answer["retry_after"]) == (False, "1")
            assert said in answer["detail"]
            assert answer["detail"].endswith("Nothing was written; try again when Redis takes writes.")
        reset = browser.post("/stock/reset")
        ready = browser.get("/readyz")
        looked = browser.get("/stock")
    assert (reset.status_code, reset.get_json()["title"]) == (503, "Unavailable")
    assert said in reset.get_json()["detail"]
    assert looked.status_code == (503 if state is busy else 200)  # it does not even read
    assert (ready.status_code, ready.get_json()["detail"]) == (503, "Cannot be used: redis.")
    assert said in ready.get_json()["redis"]
    assert browser.get("/readyz").status_code == 200
    assert browser.get("/stock").get_json()["orders"] == 1
    assert [buy(app, way)["status"] for way in WAYS] == [200] * len(WAYS)
    assert browser.get("/stock").get_json()["verdict"] == "EXACT"


@pytest.mark.parametrize("rule", ["-evalsha -eval", "resetkeys ~other:*", "resetpass >secret"])
def test_what_the_user_may_not_do_is_said(app: Flask, fresh_redis: Redis, rule: str) -> None:
    """If the Redis user has too few rights, the answer names the setting, and nothing is in doubt."""
    with redis.Redis(port=fresh_redis.port) as admin:
        admin.execute_command(f"ACL SETUSER default {rule}")
        admin.client_kill_filter(_type="normal", skipme=True)
    for way in WAYS:
        answer = buy(app, way)
        assert (answer["status"], answer["outcome"], answer["in_doubt"]) == (503, "unavailable", False), way
        assert "FLASHSALE_REDIS_URL has to name a user" in answer["detail"]


IN_ONE = {"etcd-batch": "sell", "etcd-sharded": "sell", "redis-lua": "sell", "cart": "cart"}


def sent(guard: str, script: str) -> bytes:
    """What a command that runs the script contains: its hash, or in a pipeline its text."""
    return (TEXTS if guard == "redis-watch" else SHAS)[script].encode()


def test_a_lost_write_is_in_doubt_and_the_key_resolves_it(app: Flask) -> None:
    """The answer is in doubt; a retry with the same key gets the only order."""
    for guard in warmed(app):
        with answer_lost(sent(guard, IN_ONE.get(guard, "write"))):
            lost = buy(app, guard, key="k", buyer="ada")
        told = lost["status"], lost["retry_after"], lost["outcome"], lost["in_doubt"]
        assert told == (503, "1", "unavailable", True), guard
        assert "same Idempotency-Key" in lost["detail"]
        assert orders(app) == 1
        again = buy(app, guard, key="k", buyer="ada")
        assert (again["status"], again["replayed"], orders(app)) == (200, "true", 1), guard


def test_a_lost_read_is_not_in_doubt(app: Flask) -> None:
    """If the answer to the read is lost, nothing was written, and the answer says so."""
    for guard in warmed(app):
        if guard not in IN_ONE:
            with answer_lost(sent(guard, "read")):
                lost = buy(app, guard)
            assert (lost["status"], lost["outcome"], lost["in_doubt"]) == (503, "unavailable", False), guard
            assert "Nothing was written" in lost["detail"]
            assert orders(app) == 0
            assert buy(app, guard)["status"] == 200


def warmed(app: Flask) -> Iterator[str]:
    """Each way to buy, in a new sale whose scripts Redis knows already, and whose shards have items."""
    app.test_client().post("/stock/reset", json={"stock": 100})
    for guard in WAYS:
        assert buy(app, guard)["status"] == 200
    for guard in WAYS:
        app.test_client().post("/stock/reset")
        for shard in range(4):
            Transfers(services.of(app).sale, "1", 1).refill({shard: 1})
        yield guard


def orders(app: Flask) -> int:
    return int(app.test_client().get("/stock").get_json()["orders"])


def test_a_redis_that_still_reads_its_data_has_written_nothing() -> None:
    """Redis says so instead of executing anything, so nothing is in doubt, although redis-py calls it a lost line."""
    with pytest.raises(redis.BusyLoadingError), sending():
        raise redis.BusyLoadingError("Redis is loading the dataset in memory")
