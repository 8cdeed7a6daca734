"""The buyers of the swarm test, without a swarm: they try again until they are served."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from app.contract.keys import Keys
from loadtest.shop_client.shops import Shops
from loadtest.stack.stack import Stack
from tests.support.lock import ROOT
from tests.support.modules import module_of
from tests.support.waiting import wait_until

SWARM_TEST = module_of(ROOT / "deploy/swarm_test.py")
BUYERS, STOCK = 40, 20


@pytest.mark.slow
def test_buyers_of_an_instance_that_dies_are_served_by_the_next(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With their keys they try again, all is sold, to nobody twice, and how many had to try again is told."""
    monkeypatch.setattr(SWARM_TEST, "AGAIN_S", 0.1)
    instance = stack.instances[0]
    Shops([instance.url]).reset(STOCK)

    def ledger() -> list[dict[str, Any]]:
        with redis.Redis.from_url(stack.redis.url) as client:
            entries: Any = client.lrange(Keys("demo").orders, 0, -1)
        return [json.loads(entry) for entry in entries]

    with ThreadPoolExecutor(BUYERS) as pool:
        buying = [pool.submit(SWARM_TEST.buy, f"buyer-{each}", instance.url, hold_ms=20) for each in range(BUYERS)]
        wait_until(lambda: len(ledger()) >= STOCK // 4)
        instance.kill()
        instance.start()
        served = [each.result() for each in buying]
    SWARM_TEST.judge(STOCK, served, ledger())
    retried = sum(each.tries > 1 for each in served)
    assert retried > 0
    assert f"{STOCK} of {STOCK} sold, {retried} of {BUYERS} buyers had to try again" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("outcomes", "buyers", "complaint"),
    [
        (["sold", "sold"], ["a", "a"], "buyers who bought twice: 1"),
        (["sold", "unavailable"], ["a"], "1 of 2 buyers were not served"),
        (["sold", "sold"], ["a"], "acknowledged orders that are missing"),
        (["sold", "sold_out"], ["a"], "orders: 1 instead of 2"),
    ],
)
def test_a_sale_that_went_wrong_fails(outcomes: list[str], buyers: list[str], complaint: str) -> None:
    """Somebody bought twice, too many were not served, an order is missing, or something was left."""
    served = [SWARM_TEST.Served(f"b{each}", outcome, str(each), 1) for each, outcome in enumerate(outcomes)]
    ledger = [{"order": str(each), "buyer": buyer} for each, buyer in enumerate(buyers)]
    with pytest.raises(SWARM_TEST.TestError, match=complaint):
        SWARM_TEST.judge(2, served, ledger)
