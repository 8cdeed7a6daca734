"""What Prometheus sees of one process."""

from __future__ import annotations

from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families

from app.guards import GUARDS
from app.purchase import Outcome


def samples(browser: FlaskClient) -> dict[tuple[str, ...], float]:
    """Every sample by its name and label values."""
    families = text_string_to_metric_families(browser.get("/metrics").text)
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_purchases_are_counted_by_guard_and_outcome(browser: FlaskClient) -> None:
    """Each purchase is counted once; an answer given again is counted as a replay, and not as a sale."""
    for _ in range(2):
        browser.post("/stock/reduce?guard=redis-lua", headers={"Idempotency-Key": "k"})
    browser.post("/stock/reset", json={"stock": 0})
    browser.post("/stock/reduce?guard=etcd")
    found = samples(browser)
    assert found["flashsale_purchases_total", "redis-lua", "sold"] == 1
    assert found["flashsale_purchases_total", "etcd", "sold_out"] == 1
    assert found["flashsale_replays_total", "redis-lua"] == 1
    assert found["flashsale_waited_seconds_count", "redis-lua"] == 2
    assert found["flashsale_held_seconds_count", "etcd"] == 1
    assert found["flashsale_instance", "shop-a"] == 1


def test_every_guard_and_outcome_is_there_from_the_start(browser: FlaskClient) -> None:
    """A rate over a counter that appears late would miss its first step."""
    purchases = {key[1:]: value for key, value in samples(browser).items() if key[0] == "flashsale_purchases_total"}
    sellers = [*(guard.name for guard in GUARDS), "cart"]
    assert purchases == {(seller, outcome.value): 0 for seller in sellers for outcome in Outcome}


def test_strangers_make_no_labels(browser: FlaskClient) -> None:
    """Guards that do not exist, buyers and orders never become label values."""
    before = samples(browser).keys()
    browser.post("/stock/reduce?guard=nope&buyer=mallory")
    browser.post("/stock/reduce?guard=none&buyer=mallory")
    assert samples(browser).keys() == before
