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


@pytest.mark.parametrize("status", [0, 200, 500, 502])
@pytest.mark.parametrize("body", [None, b"", b"<html>", b"[]", b'{"outcome": "free beer"}'])
def test_what_cannot_be_understood_is_an_error_in_doubt(status: int, body: bytes | None) -> None:
    """No answer, or nonsense: the purchase may have been made."""
    answer = read(status, body)
    assert (answer.outcome, answer.instance, answer.in_doubt) == (Outcome.ERROR, "http://shop", True)
    assert answer.status == status


@pytest.mark.parametrize(
    ("status", "body", "outcome", "in_doubt"),
    [
        (400, b'{"status": 400}', Outcome.ERROR, False),  # refused for its form, so nothing was bought
        (503, b'{"outcome": "unavailable", "in_doubt": true}', Outcome.UNAVAILABLE, True),
        (503, b'{"outcome": "unavailable", "in_doubt": false}', Outcome.UNAVAILABLE, False),
    ],
)
def test_a_refusal_says_whether_it_is_in_doubt(status: int, body: bytes, outcome: Outcome, in_doubt: bool) -> None:
    """An `unavailable` that may have been a sale says so."""
    answer = read(status, body)
    assert (answer.outcome, answer.in_doubt) == (outcome, in_doubt)
