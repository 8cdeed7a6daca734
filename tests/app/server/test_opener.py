"""Instances as they are run: one of them opens the sale, whatever becomes of the leader."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from app.config.settings import Settings
from loadtest.stack import programs
from loadtest.stack.apps import Instance
from loadtest.stack.process import all_stand_still
from tests.support.waiting import wait_until

TTL_S = 2


@pytest.fixture
def instances(tmp_path: Path, env: dict[str, str]) -> Iterator[dict[str, Instance]]:
    """Two of them, by name."""
    with (
        Instance(tmp_path, env=env | {"FLASHSALE_INSTANCE": "shop-a"}) as one,
        Instance(tmp_path, env=env | {"FLASHSALE_INSTANCE": "shop-b"}) as other,
    ):
        yield {"shop-a": one, "shop-b": other}


def ask(instance: Instance, method: str, path: str) -> Any:
    """The document of a successful answer."""
    with urllib.request.urlopen(urllib.request.Request(instance.url + path, method=method), timeout=60) as response:
        return json.load(response)


def scheduled(instance: Instance, in_s: int) -> tuple[str, float]:
    """The leader of a sale of 5 that opens in so many seconds, and when, by `time.time`."""
    ask(instance, "POST", "/sale/schedule?stock=5&opens_in_s=600")
    wait_until(lambda: ask(instance, "GET", "/sale")["leader"])
    shown = ask(instance, "POST", f"/sale/schedule?stock=5&opens_in_s={in_s}")
    return shown["leader"], time.time() + shown["opens_in_s"]


@pytest.mark.parametrize("fault", ["nothing", "killed", "paused", "stopped"])
def test_the_sale_is_opened_in_time_and_once(instances: dict[str, Instance], settings: Settings, fault: str) -> None:
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
    elif fault == "stopped":
        victim.stop()
    wait_until(lambda: ask(other, "GET", "/sale")["state"] == "open")
    opened_at_ms = ask_redis(settings, "opener")["at_ms"]
    late_s = int(opened_at_ms) / 1000 - opens_at
    assert -0.05 <= late_s <= TTL_S + 8
    assert ask(other, "POST", "/stock/reduce?guard=redis-lua")["stock"] == 4
    if fault == "paused":
        victim.resume()
        wait_until(lambda: ask(victim, "GET", "/sale")["leader"] is None)
        assert ask(victim, "POST", "/stock/reduce?guard=redis-lua")["stock"] == 3
    assert ask_redis(settings, "opener")["at_ms"] == opened_at_ms


def ask_redis(settings: Settings, key: str) -> dict[str, str]:
    """A hash of the sale."""
    with redis.Redis.from_url(settings.redis_url, decode_responses=True) as client:
        found: dict[str, str] = client.hgetall(f"sale:{{{settings.sale}}}:{key}")
        return found


def test_the_leader_can_be_observed(instances: dict[str, Instance], settings: Settings) -> None:
    """`python -m lock elect --listen` and `etcdctl elect --listen` name the leader."""
    leader, _ = scheduled(instances["shop-a"], 600)
    name = f"sale/{settings.sale}/opener"
    ours = [sys.executable, "-m", "lock", "elect", "--endpoints", settings.etcd_endpoints, "--listen", name]
    for command in (
        ours,
        [str(programs.etcdctl()), f"--endpoints={settings.etcd_endpoints}", "elect", "--listen", name],
    ):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listening:
            assert listening.stdout is not None
            key, value = listening.stdout.readline(), listening.stdout.readline()
            listening.terminate()
        assert (key.startswith(f"{name}/"), value.strip()) == (True, leader)
