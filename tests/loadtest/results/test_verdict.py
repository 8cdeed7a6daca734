"""The verdict: arithmetic on the ledger and the buyers' answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.results.answer import Answer, Outcome
from loadtest.results.verdict import Order, Verdict, judge

REFUSED = [Outcome.SOLD_OUT, Outcome.LOCK_TIMEOUT, Outcome.LOCK_LOST, Outcome.UNAVAILABLE]


def sold(number: int) -> Answer:
    """The answer to a buyer who got order `number`."""
    return Answer(f"buyer-{number}", Outcome.SOLD, "shop", f"order-{number}")


def refused(number: int, outcome: Outcome = Outcome.SOLD_OUT) -> Answer:
    """The answer to a buyer who got nothing; without an answer, that is in doubt."""
    return Answer(f"buyer-{number}", outcome, "shop", in_doubt=outcome is Outcome.ERROR)


def entry(number: int) -> Order:
    """The ledger's entry for order `number`."""
    return Order(f"order-{number}", f"buyer-{number}")


def rush(*, stock: int, orders: int, buyers: int, stock_left: int | None = None) -> Verdict:
    """A rush in which everybody whose order is in the ledger was told so, and nobody else."""
    answers = [sold(n) if n < orders else refused(n) for n in range(buyers)]
    left = stock - orders if stock_left is None else stock_left
    return judge(stock=stock, stock_left=left, ledger=[entry(n) for n in range(orders)], answers=answers)


def test_all_sold_once_is_exact() -> None:
    """300 orders for 300 items, 200 buyers sent away: EXACT."""
    verdict = rush(stock=300, orders=300, buyers=500)
    assert verdict.exact
    assert verdict.sentence == "EXACT"


def test_a_counter_at_zero_does_not_hide_overselling() -> None:
    """Ten orders for one item, and the counter says 0: it is the ledger that counts."""
    verdict = rush(stock=1, orders=10, buyers=10, stock_left=0)
    assert verdict.sentence == "OVERSOLD by 9"
    assert verdict.lost_updates == 9
    assert not verdict.exact


def test_selling_nothing_is_not_praised() -> None:
    """0 of 1 sold to 1000 buyers is UNDERSOLD, however they were refused."""
    for outcome in [*REFUSED, Outcome.ERROR]:
        answers = [refused(n, outcome) for n in range(1000)]
        assert judge(stock=1, stock_left=1, ledger=[], answers=answers).sentence == "UNDERSOLD by 1"


def test_what_nobody_wanted_is_not_undersold() -> None:
    """With fewer buyers than items, what is left over is no fault."""
    assert rush(stock=300, orders=200, buyers=200).exact


def test_as_many_buyers_as_items_want_them_all() -> None:
    """With one click for each item, every item that is left over was wanted, however its buyer was refused."""
    answers = [sold(0), refused(1, Outcome.LOCK_TIMEOUT)]
    assert judge(stock=2, stock_left=1, ledger=[entry(0)], answers=answers).sentence == "UNDERSOLD by 1"


@pytest.mark.parametrize("outcome", [*REFUSED, Outcome.ERROR])
def test_buyers_sent_away_with_items_left_are_items_undersold(outcome: Outcome) -> None:
    """Whoever clicked and got nothing while there were items wanted one, also where demand was small."""
    answers = [sold(0), refused(1, outcome), refused(2, outcome)]
    assert judge(stock=300, stock_left=299, ledger=[entry(0)], answers=answers).sentence == "UNDERSOLD by 2"


def test_items_that_vanish_are_undersold() -> None:
    """A counter that fell without an order has lost an item."""
    assert rush(stock=300, orders=200, buyers=200, stock_left=95).sentence == "UNDERSOLD by 5"


def test_lost_updates_alone_are_a_flaw() -> None:
    """The right number of orders with a counter that disagrees is not exact."""
    verdict = rush(stock=300, orders=300, buyers=300, stock_left=4)
    assert verdict.sentence == "4 lost updates"
    assert not verdict.exact


def test_acknowledged_but_missing() -> None:
    """A buyer who was told "sold" and is not in the ledger breaks every promise."""
    verdict = judge(stock=2, stock_left=1, ledger=[entry(0)], answers=[sold(0), sold(1)])
    assert verdict.missing == 1
    assert "1 acknowledged but missing" in verdict.sentence
    assert not verdict.exact


def test_one_order_told_to_two_buyers_is_missing_once() -> None:
    """An order belongs to one buyer; the other was told of an order that is not his."""
    other = replace(sold(0), buyer="buyer-1")
    assert judge(stock=1, stock_left=0, ledger=[entry(0)], answers=[sold(0), other]).missing == 1


def test_sold_without_an_order_is_missing() -> None:
    """A sold item whose order has no name cannot be found in the ledger."""
    nameless = replace(sold(0), order=None)
    assert judge(stock=1, stock_left=0, ledger=[entry(0)], answers=[nameless]).missing == 1


@pytest.mark.parametrize("outcome", REFUSED)
def test_sold_but_denied(outcome: Outcome) -> None:
    """An order whose buyer was told that nothing was bought is a lie, and breaks every promise."""
    verdict = judge(stock=1, stock_left=0, ledger=[entry(0)], answers=[refused(0, outcome)])
    assert verdict.contradicted == 1
    assert verdict.sentence == "1 sold but denied"
    assert not verdict.exact


def test_in_doubt_is_told_and_forgiven() -> None:
    """An order whose answer was lost is reported as in doubt; the sale is still exact."""
    verdict = judge(stock=1, stock_left=0, ledger=[entry(0)], answers=[refused(0, Outcome.ERROR)])
    assert verdict.exact
    assert verdict.sentence == "EXACT, 1 in doubt"


def test_an_uncertain_unavailable_is_in_doubt() -> None:
    """The shop itself may say that it does not know whether the write landed."""
    answer = Answer("buyer-0", Outcome.UNAVAILABLE, "shop", in_doubt=True)
    assert judge(stock=1, stock_left=0, ledger=[entry(0)], answers=[answer]).in_doubt == 1


def test_no_order_twice() -> None:
    """The same order twice in the ledger, or two orders for one click, are duplicates."""
    second = Order("order-9", "buyer-0")
    for ledger in ([entry(0), entry(0)], [entry(0), second]):
        verdict = judge(stock=2, stock_left=0, ledger=ledger, answers=[sold(0)])
        assert verdict.duplicates == 1
        assert not verdict.exact


@pytest.mark.parametrize(("stock", "left"), [(2, 0), (2, 1), (3, 0)])
def test_strangers_leave_nothing_to_judge(stock: int, left: int) -> None:
    """Where somebody who is not of the rush has bought, there is neither EXACT nor a flaw to blame a guard for."""
    ledger = [entry(0), Order("a", "anonymous"), Order("b", "anonymous")]
    verdict = judge(stock=stock, stock_left=left, ledger=ledger, answers=[sold(0), refused(1)])
    assert (verdict.strangers, verdict.in_doubt, verdict.contradicted) == (2, 0, 0)
    assert verdict.sentence == "disturbed by somebody else's purchases: no verdict"
    assert not verdict.exact


@given(stock=st.integers(0, 40), orders=st.integers(0, 60), refusals=st.integers(0, 60))
def test_an_honest_ledger_is_judged_by_its_length(stock: int, orders: int, refusals: int) -> None:
    """With a true counter and true answers, exactly one of oversold, undersold and exact holds, by the right number."""
    verdict = rush(stock=stock, orders=orders, buyers=orders + refusals)
    assert verdict.oversold == max(0, orders - stock)
    assert verdict.undersold == min(max(0, stock - orders), refusals if orders + refusals < stock else stock)
    assert verdict.exact == (orders == stock or (orders < stock and not refusals))
    assert [verdict.oversold > 0, verdict.undersold > 0, verdict.exact].count(True) == 1
    assert (verdict.lost_updates, verdict.missing, verdict.contradicted, verdict.in_doubt) == (0, 0, 0, 0)


answers_strategy = st.lists(
    st.tuples(st.integers(0, 8), st.sampled_from(Outcome), st.booleans()).map(
        lambda drawn: replace(sold(drawn[0]), outcome=drawn[1], in_doubt=drawn[2])
    ),
    max_size=12,
)
ledgers = st.lists(st.builds(Order, st.sampled_from("abcdef"), st.integers(0, 8).map("buyer-{}".format)), max_size=12)


@given(stock=st.integers(0, 10), left=st.integers(-5, 10), ledger=ledgers, answers=answers_strategy)
def test_every_order_is_accounted_for(stock: int, left: int, ledger: list[Order], answers: list[Answer]) -> None:
    """Whatever is thrown at it: no count is negative, only a sale that adds up is EXACT, order is no matter."""
    verdict = judge(stock=stock, stock_left=left, ledger=ledger, answers=answers)
    assert min(vars(verdict).values()) >= 0
    assert verdict.exact == verdict.sentence.startswith("EXACT")
    if verdict.exact:
        assert len(ledger) + left == stock
        assert len({each.order for each in ledger}) == len(ledger) <= stock
    shuffled = judge(stock=stock, stock_left=left, ledger=ledger[::-1], answers=answers[::-1])
    assert shuffled == verdict
