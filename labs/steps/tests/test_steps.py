"""Purchases that stop at each point, at two instances in this process, through real Redis and etcd."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from flask import Flask
from pydantic import SecretStr

from app import services
from app.sales.sale import Sale
from labs.steps.shop import Steps
from tests.support.shops import at_once, buy
from tests.support.waiting import wait_until

State = dict[str, Any]
POINTS = {
    "none": ["locked", "read", "think", "write", "left", "over"],
    "redis-lua": ["locked", "write", "left", "over"],
}


def add(shop: Flask, guard: str, buyer: str = "ada") -> str:
    """A purchase that stands before the guard; its id."""
    made = shop.test_client().post("/steps", json={"guard": guard, "buyer": buyer})
    assert (made.status_code, made.get_json()["point"]) == (200, "start")
    id = str(made.get_json()["id"])
    wait_until(lambda: show(shop, id)["stands"])
    return id


def step(shop: Flask, id: str, times: int = 1) -> State:
    """Let the purchase pass so many points; its state then. An answer may come before the next point: see ANSWER_S."""
    for _ in range(times):
        queue(shop, id)
        wait_until(lambda: show(shop, id)["stands"] or show(shop, id)["point"] == "over")
    return show(shop, id)


def queue(shop: Flask, id: str) -> None:
    """Let the purchase go on, to where it waits."""
    answer = shop.test_client().post(f"/steps/{id}")
    assert answer.status_code == 200, answer.get_json()


def line_of(state: State) -> str:
    """The text of the line in which the purchase stands."""
    source = state["source"]
    return str(source["text"].splitlines()[state["line"] - source["first_line"]]).strip()


def show(shop: Flask, id: str) -> State:
    return next(each for each in shop.test_client().get("/steps").get_json()["purchases"] if each["id"] == id)


@pytest.mark.parametrize("guard", POINTS)
def test_a_purchase_stops_at_every_point_on_its_line(app: Flask, sale: Sale, guard: str) -> None:
    """Each step leads to the next point and to the line of the file where the guard is; a script is a single step."""
    id = add(app, guard)
    states = [step(app, id) for _ in POINTS[guard]]
    assert [each["point"] for each in states] == POINTS[guard]
    lines = {each["point"]: line_of(each) for each in states}
    assert lines["locked"].startswith("with purchase.critical_section()")
    calls = {"read": "stock.read(section)", "think": "section.think()", "write": "stock.write(section, reading)"}
    expected = calls if guard == "none" else {"write": "self.stock(purchase.item).sell(section)"}
    assert all(call in lines[point] for point, call in expected.items())
    assert (states[-1]["outcome"], states[-1]["stock"]) == ("sold", 9)
    assert [each["stock_read"] for each in states[:2]] == ([None, 10] if guard == "none" else [None, None])


def test_what_is_ended_writes_nothing_and_leaves_nothing(app: Flask, other: Flask, sale: Sale) -> None:
    """Before the guard, inside, in the queue and about to write: all end, the lock is free, and nothing was sold."""
    holder, waiter, before = add(app, "etcd"), add(other, "etcd"), add(app, "none")
    writer = add(app, "none")
    step(app, holder, 4)
    step(app, writer, 4)
    queue(other, waiter)
    for shop in (app, other):
        assert shop.test_client().delete("/steps").get_json()["purchases"] == []
    assert services.of(app).sessions.mutex().contenders() == []
    assert sale.snapshot().orders == 0
    assert not [each for each in threading.enumerate() if each.name.startswith("steps-")]
    assert all(app.test_client().post(f"/steps/{id}").status_code == 404 for id in (holder, before, writer))


def test_a_purchase_that_is_not_stepped_ends_by_itself(app: Flask, sale: Sale) -> None:
    """After its limit it has written nothing and left its lock, wherever it stood; others buy."""
    steps = Steps(services.of(app), limit_s=1.0)
    purchases = [steps.add(guard, "ada") for guard in ("etcd", "none")]
    for _ in range(4):
        wait_until(lambda: purchases[0].stands)
        purchases[0].step()
    wait_until(lambda: all(each.is_over for each in purchases))
    assert [each["outcome"] for each in steps.show()] == ["lock_timeout"] * 2
    assert buy(app, "etcd")["outcome"] == "sold"
    assert sale.snapshot().orders == 1


def test_a_stepped_purchase_is_shut_down_with_its_instance(app: Flask, sale: Sale) -> None:
    """A drain does not wait for a person."""
    id = add(app, "etcd")
    step(app, id, 2)
    services.of(app).drain()
    assert not [each for each in threading.enumerate() if each.name == f"steps-{id}"]
    assert sale.snapshot().orders == 0


def test_who_may_step_is_who_may_reset(make: Any, sale: Sale) -> None:
    """Without the administrator's token nothing is started, stepped or ended; with it, all are."""
    client = make(admin_token=SecretStr("secret")).test_client()
    asked = [("POST", "/steps"), ("POST", "/steps/x"), ("DELETE", "/steps")]
    assert [client.open(path, method=method).status_code for method, path in asked] == [401] * 3
    token = {"Authorization": "Bearer secret"}
    assert [client.open(path, method=method, headers=token).status_code for method, path in asked] == [200, 404, 200]


def test_there_is_an_end_to_purchases_under_way(app: Flask, sale: Sale) -> None:
    """Too many are refused, also of thirty that come at once."""
    answers = at_once(30, lambda number: app.test_client().post("/steps", json={}))
    refused = [answer for answer in answers if answer.status_code == 409]
    assert len(refused) == 22
    assert all("DELETE /steps" in answer.get_json()["detail"] for answer in refused)
