"""Real time: what contradicts it is found, and no sale that can have happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.contract.orders import Order
from app.contract.outcomes import Outcome
from loadtest.results.answer import Answer
from loadtest.results.history import History

SLACK_MS = 2.0


def sold(name: str, sent_ms: float, answered_ms: float) -> Answer:
    return Answer(name, Outcome.SOLD, "shop", f"order-{name}", sent_ms=sent_ms, answered_ms=answered_ms)


def sold_out(name: str, sent_ms: float, answered_ms: float) -> Answer:
    return Answer(name, Outcome.SOLD_OUT, "shop", sent_ms=sent_ms, answered_ms=answered_ms)


def lost(name: str, sent_ms: float) -> Answer:
    return Answer(name, Outcome.ERROR, "shop", in_doubt=True, sent_ms=sent_ms, answered_ms=sent_ms + 1)


def entries(names: Iterable[str]) -> list[Order]:
    return [Order(f"order-{name}", name) for name in names]


def contradictions(answers: list[Answer], ledger: list[Order]) -> list[tuple[str, str]]:
    found = History(answers, slack_ms=SLACK_MS).out_of_order(ledger)
    return [(each.order.buyer, each.earlier.buyer) for each in found]


def premature(answers: list[Answer], ledger: list[Order], stock: int) -> list[tuple[str, str | None]]:
    found = History(answers, slack_ms=SLACK_MS).premature(ledger, stock)
    return [(each.answer.buyer, each.order.buyer if each.order else None) for each in found]


def test_an_order_cannot_precede_one_that_was_acknowledged_before_its_buyer_came() -> None:
    """It is found with that order and both times; where they overlap, either may be first."""
    answers = [sold("a", 0, 10), sold("b", 20, 30)]
    assert contradictions(answers, entries("ab")) == []
    assert contradictions(answers, entries("ba")) == [("b", "a")]
    (found,) = History(answers, slack_ms=SLACK_MS).out_of_order(entries("ba"))
    assert (found.sent_ms, found.answered_ms) == (20, 10)
    assert contradictions([sold("a", 0, 25), sold("b", 20, 30)], entries("ba")) == []


def test_the_clocks_of_buyers_may_differ_a_little() -> None:
    """What contradicts real time by no more than the slack is left alone, in both rules."""
    assert contradictions([sold("a", 0, 10), sold("b", 12, 30)], entries("ba")) == []
    assert contradictions([sold("a", 0, 10), sold("b", 12.1, 30)], entries("ba")) == [("b", "a")]
    assert premature([sold_out("a", 0, 10), sold("b", 12, 30)], entries("b"), 1) == []
    assert premature([sold_out("a", 0, 10), sold("b", 12.1, 30)], entries("b"), 1) == [("a", "b")]


def test_items_have_no_common_order() -> None:
    """Orders of two items are never out of order among each other."""
    answers = [sold("a", 0, 10), sold("b", 20, 30)]
    assert contradictions(answers, [replace(entries("b")[0], item="2"), *entries("a")]) == []


def test_the_first_request_and_the_first_acknowledgement_count() -> None:
    """A buyer who retries came with the first request, also with one whose answer was lost."""
    assert contradictions([sold("a", 0, 10), lost("b", 5), sold("b", 20, 30)], entries("ba")) == []
    assert contradictions([sold("b", 20, 30), sold("a", 40, 50), sold("a", 0, 10)], entries("ba")) == [("b", "a")]


def test_a_buyer_who_is_not_known_may_have_come_first() -> None:
    """An order from outside the rush contradicts nothing, and may have taken the last item."""
    assert contradictions([sold("a", 0, 10)], entries("xa")) == []
    assert premature([sold_out("a", 0, 10)], entries("x"), 1) == []


def test_sold_out_is_premature_while_an_item_is_left_for_a_later_buyer() -> None:
    """The only item goes to a click of 100 ms, and "sold out" was told at 5 ms."""
    answers = [sold_out("a", 0, 5), sold("b", 100, 110)]
    assert premature(answers, entries("b"), 1) == [("a", "b")]
    assert premature([sold_out("a", 0, 5), sold("b", 4, 110)], entries("b"), 1) == []


def test_only_the_first_orders_of_an_oversold_item_can_have_emptied_it() -> None:
    """The orders beyond the stock stand behind them in the ledger, so that they came later."""
    answers = [sold("a", 50, 60), sold_out("x", 0, 20), sold("b", 0, 70)]
    assert premature(answers, entries("ab"), 1) == [("x", "a")]


def test_sold_out_is_wrong_if_an_item_was_never_sold() -> None:
    """Unless a purchase in doubt may have taken it, or Redis has lost an order."""
    answers = [sold("a", 0, 10), sold_out("b", 20, 30)]
    assert premature(answers, entries("a"), 2) == [("b", None)]
    assert premature([*answers, lost("c", 5)], entries("a"), 2) == []
    assert premature([*answers, lost("c", 35)], entries("a"), 2) == [("b", None)]
    assert premature([*answers, sold("c", 0, 10)], entries("a"), 2) == []
    assert premature([sold_out("b", 20, 30)], [], 0) == []


def test_each_item_has_its_own_stock() -> None:
    """Orders of another item neither empty this one nor excuse it."""
    answers = [sold_out("a", 0, 5), sold("b", 100, 110), replace(sold("c", 0, 2), item="2")]
    ledger = [replace(entries("c")[0], item="2"), *entries("b")]
    assert premature(answers, ledger, 1) == [("a", "b")]


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
