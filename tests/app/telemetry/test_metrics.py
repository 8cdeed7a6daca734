"""What Prometheus sees of one process."""

from __future__ import annotations

import json
import re
from pathlib import Path

from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families

from app.contract.outcomes import ANSWERS, LossCause, Outcome
from app.sales.purchase import Purchase, Receipt, Section
from app.telemetry.metrics import Metrics
from tests.support.shops import WAYS


def samples(browser: FlaskClient) -> dict[tuple[str, ...], float]:
    answer = browser.get("/metrics")
    assert answer.content_type.startswith("text/plain; version=")  # Prometheus 3 reads nothing else
    return parsed(answer.text)


def parsed(text: str) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(text)
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


def test_times_and_losses_are_told_as_they_were() -> None:
    """Waiting ends where holding begins; a purchase that never got in held nothing; a lost lock has a cause."""
    metrics = Metrics("shop-a", ["etcd", "none"])
    lost = Purchase("ada", "etcd", began=100.0, loss=LossCause.FENCED_OFF)
    lost.section = Section(lost, entered=103.0, left=104.0)
    metrics.count(lost, Receipt(Outcome.LOCK_LOST, "etcd"))
    metrics.count(Purchase("bob", "etcd"), Receipt(Outcome.LOCK_TIMEOUT, "etcd"))
    found = parsed(metrics.expose().get_data(as_text=True))
    assert 3.0 <= found["flashsale_waited_seconds_sum", "etcd"] < 60.0
    assert found["flashsale_waited_seconds_count", "etcd"] == 2
    assert found["flashsale_held_seconds_sum", "etcd"] == 1.0
    assert found["flashsale_held_seconds_count", "etcd"] == 1
    causes = [cause for cause in LossCause if found["flashsale_locks_lost_total", cause.value, "etcd"]]
    assert causes == [LossCause.FENCED_OFF]
    assert metrics.outcomes() == {each.value: 0 for each in ANSWERS} | {"lock_timeout": 1, "lock_lost": 1}


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
