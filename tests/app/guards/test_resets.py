"""A purchase belongs to the sale in which it was clicked; a sale whose keys were changed by hand says so."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask

from app.sales.sale import Sale
from lock import Mutex
from tests.support.shops import WAIT_S, WAYS, buy, queue_behind

UNDER_ETCD = ["etcd", "etcd-checked", "etcd-unfenced", "etcd-cohort", "etcd-batch"]


@pytest.mark.parametrize("resets", ["here", "elsewhere"])
@pytest.mark.parametrize("guard", UNDER_ETCD)
def test_a_purchase_that_waited_over_a_reset_is_refused(
    app: Flask, sale: Sale, stranger: Mutex, crowd: ThreadPoolExecutor, guard: str, resets: str
) -> None:
    """It is lock_lost with the cause sale_reset, and sells nothing of the new sale; a later click does."""
    assert buy(app, guard)["status"] == 200  # so that the instance knows the sale
    with stranger.acquire(timeout=WAIT_S):
        waiting = queue_behind(stranger, crowd, app, guard, buyer="long gone")
        if resets == "here":
            app.test_client().post("/stock/reset")
        else:
            sale.reset()
    refused = waiting.result(WAIT_S)
    assert (refused["status"], refused["outcome"], sale.snapshot().orders) == (503, "lock_lost", 0)
    assert "the sale was reset while this purchase was waiting" in refused["detail"]
    lost = next(line for line in app.test_client().get("/metrics").text.splitlines() if 'cause="sale_reset"' in line)
    assert "flashsale_locks_lost_total" in lost
    assert buy(app, guard)["outcome"] == "sold"


@pytest.mark.parametrize("value", ["abc", "3 items"])
def test_a_stock_that_is_no_number_is_named(app: Flask, sale: Sale, value: str) -> None:
    """Every way to buy, and a look, is a 503 that names the key; a reset mends it."""
    browser = app.test_client()
    sale.client.set(sale.keys.stock, value)
    for way in WAYS:
        answer = buy(app, way)
        assert (answer["status"], answer["outcome"], answer["in_doubt"]) == (503, "unavailable", False), way
        assert sale.keys.stock in answer["detail"], way
    looked, ready = browser.get("/stock"), browser.get("/readyz")
    assert (looked.status_code, sale.keys.stock in looked.get_json()["detail"]) == (503, True)
    assert (ready.status_code, sale.keys.stock in ready.get_json()["sale"]) == (503, True)
    assert browser.post("/stock/reset?stock=20").status_code == 200
    assert [buy(app, way)["status"] for way in WAYS] == [200] * len(WAYS)
