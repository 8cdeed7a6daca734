"""A server fails, refuses writes or loses an answer: nothing is sold unnoticed, and the answer says what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
import pytest
import redis
from flask import Flask

from app import services
from app.config.settings import Settings
from app.contract.keys import Keys
from app.sales.redis_client import Script
from app.sales.stock import READ, WRITE
from app.web import error_handlers
from loadtest.stack.servers import Etcd, Redis
from lock.etcd.transport import rpc
from tests.support.overtaking import answer_lost
from tests.support.shops import WAYS, at_once, buy, refused
from tests.support.waiting import wait_until


def told(command: str) -> Callable[[Redis], None]:
    """What has an administrator tell a server to do this; all have to connect to it again."""

    def tell(server: Redis) -> None:
        with redis.Redis(port=server.port) as admin:
            admin.execute_command(command)
            admin.client_kill_filter(_type="normal", skipme=True)

    return tell


# How Redis comes to refuse, and how that ends; what an answer says of it, and until when.
STATES = [
    (told("REPLICAOF 127.0.0.1 1"), told("REPLICAOF NO ONE"), "read only replica", "takes writes"),
    (told("CONFIG SET maxmemory 1"), told("CONFIG SET maxmemory 0"), "used memory > 'maxmemory'", "takes writes"),
    (Redis.stop, Redis.start, "Connection refused", "is back"),
]


@pytest.fixture
def app(make: Callable[..., Flask], fresh_redis: Redis) -> Flask:
    """A shop with its own Redis that has sold one item."""
    app = make(redis_url=fresh_redis.url, stock=20)
    assert buy(app, "none")["status"] == 200
    return app


@pytest.mark.parametrize(("refuse", "mend", "said", "until"), STATES)
def test_a_refused_write_is_unavailable(
    app: Flask,
    fresh_redis: Redis,
    refuse: Callable[[Redis], None],
    mend: Callable[[Redis], None],
    said: str,
    until: str,
) -> None:
    """Every purchase and a reset answer 503 with what is wrong, not in doubt; afterwards all of them sell."""
    browser = app.test_client()
    refuse(fresh_redis)
    for way in WAYS:
        detail = refused(buy(app, way))
        assert said in detail, way
        assert detail.endswith(f"Nothing was written; try again when Redis {until}."), way
    reset, ready, looked = browser.post("/stock/reset"), browser.get("/readyz"), browser.get("/stock")
    mend(fresh_redis)
    assert (reset.status_code, reset.headers["Retry-After"]) == (503, "1")
    assert said in reset.get_json()["detail"]
    assert looked.status_code == (503 if until == "is back" else 200)
    assert ready.get_json()["detail"] == "Cannot be used: redis."
    assert said in ready.get_json()["redis"]
    assert browser.get("/readyz").status_code == 200
    assert browser.get("/stock").get_json()["orders"] == 1
    assert [buy(app, way)["status"] for way in WAYS] == [200] * len(WAYS)
    assert browser.get("/stock").get_json()["verdict"] == "EXACT"


@pytest.mark.parametrize("rule", ["-evalsha -eval", "resetkeys ~other:*", "resetpass >secret"])
def test_what_the_user_may_not_do_is_said(app: Flask, fresh_redis: Redis, rule: str) -> None:
    """If the Redis user has too few rights, the answer names the setting, and nothing is in doubt."""
    told(f"ACL SETUSER default {rule}")(fresh_redis)
    for way in WAYS:
        assert "FLASHSALE_REDIS_URL has to name a user" in refused(buy(app, way)), way
    reset = app.test_client().post("/stock/reset").get_json()
    assert reset["detail"].endswith("who may run all commands on the keys sale:*.")


def test_a_connection_that_redis_closes_passes_with_a_moment() -> None:
    """As by a restart: no setting is named, although TLS that does not fit looks like that in /readyz."""
    app = Flask("shop")
    app.config["INSTANCE"] = "shop-a"
    error_handlers.init_app(app)

    @app.get("/")
    def closed() -> str:
        raise redis.ConnectionError("Connection closed by server.")

    answer = app.test_client().get("/")
    assert answer.get_json()["detail"] == "Connection closed by server. Try again in a moment."


IN_ONE = ("etcd-batch", "redis-lua")  # which read and write in one script


def sent(way: str, script: Script) -> bytes:
    """What a command that runs the script contains: its hash, or in a pipeline its text."""
    return b"EVALSHA" if way in IN_ONE else (script.text if way == "redis-watch" else script.sha).encode()


def test_only_a_lost_write_is_in_doubt_and_the_key_resolves_it(app: Flask) -> None:
    """If the answer to the read is lost, nothing was written; if that to the write is, a retry gets the only order."""
    for guard in warmed(app):
        if guard not in IN_ONE:
            with answer_lost(sent(guard, READ)):
                assert "Nothing was written" in refused(buy(app, guard))
            assert orders(app) == 0
        with answer_lost(sent(guard, WRITE)):
            lost = buy(app, guard, key="k", buyer="ada")
        assert "same Idempotency-Key" in refused(lost, in_doubt=True)
        assert orders(app) == 1
        again = buy(app, guard, key="k", buyer="ada")
        assert again["status"] == 200, guard
        assert again["replayed"] == "true", guard
        assert orders(app) == 1, guard


def warmed(app: Flask) -> Iterator[str]:
    """Each way to buy, in a new sale whose scripts Redis knows already."""
    app.test_client().post("/stock/reset", json={"stock": 100})
    for guard in WAYS:
        assert buy(app, guard)["status"] == 200
    for guard in WAYS:
        app.test_client().post("/stock/reset")
        yield guard


def orders(app: Flask) -> int:
    return int(app.test_client().get("/stock").get_json()["orders"])


def test_redis_frozen(app: Flask, fresh_redis: Redis) -> None:
    """A frozen Redis may do late what it was sent: a write is in doubt and its key buys once, a read is refused."""
    assert buy(app, "redis-lua")["status"] == 200  # over the connection that is used next
    fresh_redis.pause()
    bought = buy(app, "redis-lua", key="k")
    read = buy(app, "etcd")
    fresh_redis.resume()
    refused(bought, in_doubt=True)
    refused(read)
    wait_until(lambda: buy(app, "redis-lua", key="k")["status"] == 200)
    wait_until(lambda: buy(app, "etcd")["status"] == 200)
    assert orders(app) == 4
    assert app.test_client().get("/stock").get_json()["verdict"] == "EXACT"


def test_a_stock_that_is_no_number_is_named(app: Flask, fresh_redis: Redis, settings: Settings) -> None:
    """Every way to buy, and a look, is a 503 that names the key that was changed by hand; a reset mends it."""
    browser, key = app.test_client(), Keys(settings.sale).stock
    with redis.Redis(port=fresh_redis.port) as admin:
        admin.set(key, "3 items")
    for way in WAYS:
        assert key in refused(buy(app, way)), way
    for looked, member in ((browser.get("/stock"), "detail"), (browser.get("/readyz"), "sale")):
        assert looked.status_code == 503
        assert key in looked.get_json()[member]
    assert browser.post("/stock/reset?stock=20").status_code == 200
    assert [buy(app, way)["status"] for way in WAYS] == [200] * len(WAYS)


# etcd fails and recovers: no sale under its lock without it, and no restart of the shop.


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
