"""What Prometheus sees of one process."""

from __future__ import annotations

import json
import re
from pathlib import Path

from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families

from app.contract.outcomes import ANSWERS
from tests.support.shops import WAYS


def samples(browser: FlaskClient) -> dict[tuple[str, ...], float]:
    answer = browser.get("/metrics")
    assert answer.content_type.startswith("text/plain; version=")  # Prometheus 3 reads nothing else
    families = text_string_to_metric_families(answer.text)
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_purchases_are_counted_by_guard_and_outcome(browser: FlaskClient) -> None:
    """Each purchase is counted once, with its times; an answer given again is a replay, and not a sale."""
    browser.post("/stock/reduce?guard=none&hold_ms=20")
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
    assert 0.02 <= found["flashsale_held_seconds_sum", "none"] < 20
    assert found["flashsale_instance", "shop-a"] == 1


def test_every_guard_and_outcome_is_there_from_the_start(browser: FlaskClient) -> None:
    """A rate over a counter that appears late would miss its first step; strangers and buyers make no labels."""
    found = samples(browser)
    purchases = {key[1:]: value for key, value in found.items() if key[0] == "flashsale_purchases_total"}
    assert purchases == {(way, outcome.value): 0 for way in WAYS for outcome in ANSWERS}
    assert not [name for name, *_ in found if name.endswith("_created")]  # which would double them all
    for guard in ("nope", "none"):
        browser.post(f"/stock/reduce?guard={guard}&buyer=mallory")
    assert samples(browser).keys() == found.keys()


def test_the_dashboard_asks_for_what_there_is(browser: FlaskClient) -> None:
    """Each query of deploy/grafana.json names series, and labels of theirs, that /metrics has."""
    exposed: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(flashsale_\w+)(?:\{(.*)\})? ", browser.get("/metrics").text, re.MULTILINE):
        exposed.setdefault(name, {"instance"}).update(re.findall(r'(\w+)="', labels))
    dashboard = json.loads((Path(__file__).parents[3] / "deploy/grafana.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for query in [*queries, dashboard["templating"]["list"][1]["query"]["query"]]:
        (name,) = re.findall(r"flashsale_\w+", query)
        labels = {label for names in re.findall(r"by \(([^)]*)\)", query) for label in names.split(", ")}
        assert name in exposed
        assert labels | {*re.findall(r"(\w+)=~", query)} <= exposed[name], query
