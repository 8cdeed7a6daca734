"""The buyers of make kubernetes-test, without a cluster: they retry until they are served, and are judged."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import redis

from app.contract.keys import Keys
from deploy import kubernetes_test
from loadtest.stack.stack import Stack
from tests.support.lock import ROOT
from tests.support.waiting import wait_until

BUYERS, STOCK = 40, 20


@pytest.mark.slow
def test_buyers_of_an_instance_that_dies_are_served_by_the_next(stack: Stack) -> None:
    """With their keys they retry, all is sold, to nobody twice."""
    instance = stack.instances[0]

    def ledger() -> list[dict[str, Any]]:
        with redis.Redis.from_url(stack.redis.url) as client:
            entries: Any = client.lrange(Keys("demo").orders, 0, -1)
        return [json.loads(entry) for entry in entries]

    program = [sys.executable, str(ROOT / "deploy/retrying_buyers.py"), instance.url, str(STOCK), str(BUYERS), "20"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as buyers:
        assert buyers.stdout
        assert "reset" in json.loads(buyers.stdout.readline())
        wait_until(lambda: len(ledger()) >= STOCK // 4)
        instance.kill()
        instance.start()
        served = [json.loads(line) for line in buyers.stdout]
    kubernetes_test.judge(STOCK, served, ledger())
    assert any(each["tries"] > 1 for each in served)


WRONG = [
    (["sold", "sold"], "aa", "TestError", "1 buyers bought twice"),
    (["sold", "unavailable"], "a", "NoVerdict", "1 of 2 buyers were not served"),
    (["sold", "sold"], "a", "TestError", "1 acknowledged orders are missing"),
    (["sold", "sold_out"], "a", "TestError", "1 items were not sold"),
    (["sold", "sold", "sold"], "abc", "TestError", "1 sold too many"),
]


def test_a_sale_that_went_wrong_fails() -> None:
    """Too much is sold, a buyer bought twice, an order is missing, or items are left; too few served is no verdict."""
    for outcomes, buyers, error, complaint in WRONG:
        served = [
            {"buyer": f"b{each}", "outcome": outcome, "order": str(each), "tries": 1}
            for each, outcome in enumerate(outcomes)
        ]
        ledger = [{"order": str(each), "buyer": buyer} for each, buyer in enumerate(buyers)]
        with pytest.raises(getattr(kubernetes_test, error), match=complaint):
            kubernetes_test.judge(2, served, ledger)
