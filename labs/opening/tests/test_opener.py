"""Instances and the rush as they are run: one of them opens the sale, whatever becomes of the leader."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import redis
import requests

from loadtest.stack.apps import Instance
from loadtest.stack.process import all_stand_still
from loadtest.stack.servers import Etcd, Redis
from loadtest.stack.stack import Stack
from tests.support.rushing import REPOSITORY, Finished
from tests.support.rushing import environment as rush_environment
from tests.support.shops import environment
from tests.support.waiting import wait_until

SALE = uuid.uuid4().hex


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, etcd: Etcd, redis_server: Redis) -> Iterator[dict[str, Instance]]:
    """Two of them, by name, for all tests of this module."""
    directory = tmp_path_factory.mktemp("instances")
    env = environment(etcd, redis_server, SALE)
    with (
        Instance(directory, env=env | {"FLASHSALE_INSTANCE": "shop-a"}) as one,
        Instance(directory, env=env | {"FLASHSALE_INSTANCE": "shop-b"}) as other,
    ):
        yield {"shop-a": one, "shop-b": other}


@pytest.fixture
def instances(pair: dict[str, Instance]) -> dict[str, Instance]:
    """Both of them run, whatever the test before left."""
    for instance in pair.values():
        instance.start()
    return dict(pair)


def ask(instance: Instance, method: str, path: str) -> Any:
    return requests.request(method, instance.url + path, timeout=60).json()


def scheduled(instance: Instance, in_s: int) -> tuple[str, float]:
    """The leader of a sale of 5 that opens in so many seconds, and when at the earliest, by `time.time`."""
    ask(instance, "POST", "/sale/schedule?stock=5&opens_in_s=600")
    wait_until(lambda: ask(instance, "GET", "/sale")["leader"])
    opens_at = time.time() + in_s
    return ask(instance, "POST", f"/sale/schedule?stock=5&opens_in_s={in_s}")["leader"], opens_at


@pytest.mark.parametrize("fault", ["killed", "paused", "stopped"])
def test_the_sale_is_opened_in_time_and_once(instances: dict[str, Instance], redis_server: Redis, fault: str) -> None:
    """Not before its time, once, and by the other instance if the leader fails just before."""
    leader, opens_at = scheduled(instances["shop-a"], 2)
    victim = instances.pop(leader)
    (other,) = instances.values()
    time.sleep(max(opens_at - 0.3 - time.time(), 0.0))
    if fault == "killed":
        victim.kill()
    elif fault == "paused":
        victim.pause()
        wait_until(lambda: all_stand_still(victim.pid))
    else:
        victim.stop()
    wait_until(lambda: ask(other, "GET", "/sale")["state"] == "open")
    opened_at_ms, token = opener(redis_server)["at_ms"], opener(redis_server)["token"]
    assert int(token) > 0
    assert int(opened_at_ms) / 1000 >= opens_at - 0.001  # it is in whole milliseconds
    assert ask(other, "POST", "/stock/reduce?guard=redis-lua")["stock"] == 4
    if fault == "paused":
        victim.resume()
        wait_until(lambda: ask(victim, "GET", "/sale")["leader"] is None)
        assert ask(victim, "POST", "/stock/reduce?guard=redis-lua")["stock"] == 3
    assert opener(redis_server)["at_ms"] == opened_at_ms
    told = datetime.fromisoformat(ask(other, "GET", "/sale")["opened_at"].replace("Z", "+00:00"))
    assert told.timestamp() * 1000 == pytest.approx(int(opened_at_ms), abs=1)


def opener(server: Redis) -> dict[str, str]:
    """What Redis knows of who opened the sale."""
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        found: dict[str, str] = client.hgetall(f"sale:{{{SALE}}}:opener")
        return found


# The rush at a scheduled opening, run as a user does.


BUYERS, STOCK = 60, 20
OPTIONS = ("--locustfile", str(REPOSITORY / "labs/opening/locustfile.py"), "--users", str(BUYERS), "--guards", "etcd")


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_scheduled_sale_is_sold_when_it_opens(stack: Stack, tmp_path: Path) -> None:
    """Buyers click early, too early and on time: all learn when it opens, and the sale is exact."""
    rush = Finished(rush_environment(stack), tmp_path, *OPTIONS, "--stock", str(STOCK), "--opens-in=3")
    (run,) = rush.runs().values()
    assert (run.verdict, run.outcomes["sold"], run.outcomes["sold_out"]) == ("EXACT", STOCK, BUYERS - STOCK)
    early, failures = rush.requests()["etcd", "not_open"]
    assert early >= BUYERS // 3
    assert failures <= early - BUYERS // 3, "an early click is told the truth; a click on time may find it opening"
