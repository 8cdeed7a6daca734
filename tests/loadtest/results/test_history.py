"""Real time: what contradicts it is found, and no sale that can have happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.orders import Order
from app.contract.outcomes import Outcome
from loadtest.results.answer import Answer
from loadtest.results.history import History

SLACK_MS = 2.0


def sold(name: str, sent_ms: float, answered_ms: float) -> Answer:
    answer = Answer(name, Outcome.SOLD, "shop", f"order-{name}", sent_ms=sent_ms, answered_ms=answered_ms)
    return replace(answer, item=item_of(name))


def sold_out(name: str, sent_ms: float, answered_ms: float) -> Answer:
    return Answer(name, Outcome.SOLD_OUT, "shop", sent_ms=sent_ms, answered_ms=answered_ms)


def lost(name: str, sent_ms: float) -> Answer:
    return Answer(name, Outcome.ERROR, "shop", in_doubt=True, sent_ms=sent_ms, answered_ms=sent_ms + 1)


def item_of(name: str) -> str:
    """Buyer "b2" buys item 2, and "b" item 1."""
    return name[1:] or "1"


def entries(names: Iterable[str]) -> list[Order]:
    return [Order(f"order-{name}", name, item=item_of(name)) for name in names]


def contradictions(answers: list[Answer], ledger: list[Order]) -> list[tuple[str, str]]:
    found = History(answers, slack_ms=SLACK_MS).out_of_order(ledger)
    return [(each.order.buyer, each.earlier.buyer) for each in found]


def premature(answers: list[Answer], ledger: list[Order], stock: int) -> list[tuple[str, str | None]]:
    found = History(answers, slack_ms=SLACK_MS).premature(ledger, stock)
    return [(each.answer.buyer, each.order.buyer if each.order else None) for each in found]


A, B = sold("a", 0, 10), sold("b", 20, 30)


@pytest.mark.parametrize(
    ("answers", "ledger", "found"),
    [
        pytest.param([A, B], "ab", [], id="one after the other"),
        pytest.param([A, B], "ba", [("b", "a")], id="the other way round"),
        pytest.param([sold("a", 0, 25), B], "ba", [], id="at once"),
        pytest.param([A, sold("b", 12, 30)], "ba", [], id="clocks may differ so much"),
        pytest.param([A, sold("b", 12.1, 30)], "ba", [("b", "a")], id="and no more"),
        pytest.param([A, sold("b2", 20, 30)], ["b2", "a"], [], id="items have no common order"),
        pytest.param([A, lost("b", 5), B], "ba", [], id="the first request counts, though its answer was lost"),
        pytest.param([B, sold("a", 40, 50), A], "ba", [("b", "a")], id="and the first acknowledgement"),
        pytest.param([A], "xa", [], id="a buyer who is not known may have come first"),
    ],
)
def test_an_order_cannot_precede_one_that_was_acknowledged_before_its_buyer_came(
    answers: list[Answer], ledger: Iterable[str], found: list[tuple[str, str]]
) -> None:
    """It is found with that order."""
    assert contradictions(answers, entries(ledger)) == found


SOLD_OUT = sold_out("x", 20, 30)


@pytest.mark.parametrize(
    ("answers", "ledger", "stock", "found"),
    [
        pytest.param([sold_out("x", 0, 5), B], "b", 1, [("x", "b")], id="the only item goes to a later click"),
        pytest.param([sold_out("x", 0, 5), sold("b", 4, 99)], "b", 1, [], id="it went to a click before"),
        pytest.param([sold_out("x", 0, 10), sold("b", 12, 30)], "b", 1, [], id="clocks may differ so much"),
        pytest.param([sold_out("x", 0, 10), sold("b", 12.1, 30)], "b", 1, [("x", "b")], id="and no more"),
        pytest.param([sold_out("x", 0, 10)], "y", 1, [], id="a buyer who is not known may have taken it"),
        pytest.param(
            [sold("a", 50, 60), sold_out("x", 0, 20), sold("b", 0, 70)], "ab", 1, [("x", "a")],
            id="orders beyond the stock came later",
        ),
        pytest.param([A, SOLD_OUT], "a", 2, [("x", None)], id="an item was never sold"),
        pytest.param([A, SOLD_OUT, lost("c", 5)], "a", 2, [], id="a purchase in doubt may have taken it"),
        pytest.param([A, SOLD_OUT, lost("c", 35)], "a", 2, [("x", None)], id="unless it came later"),
        pytest.param([A, SOLD_OUT, sold("c", 0, 10)], "a", 2, [], id="Redis has lost an order"),
        pytest.param([SOLD_OUT], "", 0, [], id="there was nothing"),
        pytest.param([sold_out("x", 0, 5), B, sold("c2", 0, 2)], ["c2", "b"], 1, [("x", "b")], id="of another item"),
    ],
)  # fmt: skip
def test_sold_out_is_premature_while_an_item_is_left(
    answers: list[Answer], ledger: Iterable[str], stock: int, found: list[tuple[str, str | None]]
) -> None:
    """It is found with the order that took an item later, if there is one."""
    assert premature(answers, entries(ledger), stock) == found


times = st.integers(0, 30)
purchases = st.lists(st.tuples(times, times, times, st.booleans(), st.sampled_from("12")), max_size=12)


@given(purchases, st.integers(0, 6))
def test_a_sale_that_can_have_happened_is_never_condemned(
    made: list[tuple[int, int, int, bool, str]], stock: int
) -> None:
    """Each purchase is made at some moment between request and answer, of one of two items; answers may be lost."""
    answers: list[Answer] = []
    ledger: list[Order] = []
    for number, (a, b, c, is_lost, item) in enumerate(sorted(made, key=lambda each: sorted(each[:3])[1])):
        sent_ms, _, answered_ms = sorted((a, b, c))
        buyer, is_left = str(number), sum(order.item == item for order in ledger) < stock
        answer = lost(buyer, sent_ms) if is_lost else (sold if is_left else sold_out)(buyer, sent_ms, answered_ms)
        answers.append(replace(answer, item=item))
        ledger += [replace(order, item=item) for order in entries([buyer] * is_left)]
    ledger.sort(key=lambda order: order.item)
    assert contradictions(answers, ledger) == []
    assert premature(answers, ledger, stock) == []
