"""What a buyer reads out of the shop's HTTP answers."""

from __future__ import annotations

import json

import pytest

from app.sales.purchase import Outcome as ShopOutcome
from loadtest.results.answer import Answer, Outcome


def read(status: int, body: bytes | None) -> Answer:
    """The answer of the shop at http://shop to buyer-0."""
    return Answer.read("buyer-0", "http://shop", status, body, sent=1.0, received=1.5)


def test_every_outcome_of_the_shop_is_known() -> None:
    """The shop's words are understood; only `error` is the buyers' own."""
    assert {outcome.value for outcome in Outcome} == {outcome.value for outcome in ShopOutcome} | {"error"}


def test_a_sold_item() -> None:
    """Order, instance, token and times are taken over; the buyer has its own stopwatch."""
    told = {"outcome": "sold", "order": "x", "instance": "shop-a", "waited_ms": 3.5, "held_ms": 0.5, "token": 7}
    answer = read(200, json.dumps(told).encode())
    assert answer == Answer("buyer-0", Outcome.SOLD, "shop-a", "x", False, 1.0, 1.5, 3.5, 0.5, 200, 7)
    assert answer.purchase_ms == 500.0


def test_the_shop_itself_may_be_in_doubt() -> None:
    """An `unavailable` that may have been a sale says so."""
    assert read(503, b'{"outcome": "unavailable", "in_doubt": true}').in_doubt
    assert not read(503, b'{"outcome": "unavailable", "in_doubt": false}').in_doubt


@pytest.mark.parametrize("status", [0, 200, 500, 502])
@pytest.mark.parametrize("body", [None, b"", b"<html>", b"[]", b'{"outcome": "free beer"}'])
def test_what_cannot_be_understood_is_an_error_in_doubt(status: int, body: bytes | None) -> None:
    """No answer, or nonsense: the purchase may have been made."""
    answer = read(status, body)
    assert (answer.outcome, answer.instance, answer.in_doubt) == (Outcome.ERROR, "http://shop", True)
    assert answer.status == status


def test_a_refused_request_is_no_purchase() -> None:
    """A 400 is an error, and nothing was bought."""
    answer = read(400, b'{"status": 400}')
    assert answer.outcome is Outcome.ERROR
    assert not answer.in_doubt
