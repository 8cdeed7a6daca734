"""The verdict: arithmetic on the ledger and the buyers' answers, and how an answer is read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.orders import Order
from app.contract.outcomes import Outcome
from app.contract.verdict import Kind, Verdict
from loadtest.results.answer import Answer
from loadtest.results.audit import Audit
from loadtest.results.comparison import Comparison, GuardRun
from tests.loadtest.results.test_fence import section

MISSING = "1 acknowledged but missing"
REFUSED = [Outcome.SOLD_OUT, Outcome.LOCK_TIMEOUT, Outcome.LOCK_LOST, Outcome.UNAVAILABLE]


def sold(number: int) -> Answer:
    return Answer(f"buyer-{number}", Outcome.SOLD, "shop", f"order-{number}")


def refused(number: int, outcome: Outcome = Outcome.SOLD_OUT) -> Answer:
    """The answer to a buyer without an order; an error is in doubt."""
    return Answer(f"buyer-{number}", outcome, "shop", in_doubt=outcome is Outcome.ERROR)


def entry(number: int) -> Order:
    return Order(f"order-{number}", f"buyer-{number}")


def rush(*, stock: int, left: int, orders: int, **others: int) -> Verdict:
    """A rush in which every buyer with an order was told so, and `others` by the name of their outcome."""
    answers = [sold(number) for number in range(orders)]
    for outcome, count in others.items():
        answers += [refused(len(answers) + number, Outcome(outcome)) for number in range(count)]
    return Audit(stock, left, [entry(n) for n in range(orders)], answers).verdict()


EXAMPLES = json.loads((Path(__file__).parents[2] / "data/verdicts.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["what"])
def test_the_verdict_is_that_of_shop_and_board(example: dict[str, Any]) -> None:
    """Each shared example has its verdict, word by word."""
    stock, left, orders = (example[name] for name in ("stock", "stock_left", "sold"))
    others = {"sold_out": example["sold_out"], "lock_timeout": example["gave_up"], "unavailable": example["failed"]}
    verdict = rush(stock=stock, left=left, orders=orders, **others)
    assert verdict.sentence == example["verdict"]
    assert verdict.lost_updates == example["lost_updates"]
    assert verdict.exact == (example["verdict"] == "EXACT")


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        ("lock_timeout", "gave up: 1000"),
        ("sold_out", "1000 told sold out too early"),
        ("error", "1000 without an answer"),
        ("lock_lost", "1000 refused"),
        ("unavailable", "1000 refused"),
    ],
)
def test_selling_nothing_is_not_praised(outcome: str, why: str) -> None:
    """0 of 1 sold to 1000 buyers is UNDERSOLD, however they were refused, and what they were told is counted."""
    assert rush(stock=1, left=1, orders=0, **{outcome: 1000}).sentence == f"UNDERSOLD by 1, {why}"
    assert rush(stock=300, left=300, orders=0, **{outcome: 2}).undersold == 2


@pytest.mark.parametrize(
    ("left", "others", "alone"),
    [
        (2, {"lock_timeout": 2}, True),
        (2, {"lock_timeout": 5}, True),
        (2, {"lock_timeout": 1, "unavailable": 1}, False),
        (3, {"lock_timeout": 5}, False),  # an update was lost as well
        (0, {"lock_timeout": 1}, False),  # an item vanished as well
        (2, {"sold_out": 5}, False),
    ],
)
def test_running_out_of_time_is_told_apart(left: int, others: dict[str, int], alone: bool) -> None:
    """Buyers that gave up explain what was not sold, unless something else is wrong too."""
    assert rush(stock=10, left=left, orders=8, **others).ran_out_of_time == alone


FIRST, LATER = replace(sold(0), sent_ms=1.0), replace(refused(0), sent_ms=2.0)


@pytest.mark.parametrize(
    ("ledger", "answers", "found", "sentence"),
    [
        pytest.param([entry(0)], [sold(0), sold(1)], "missing", MISSING, id="missing"),
        pytest.param([entry(0)], [sold(0), replace(sold(0), buyer="buyer-1")], "missing", MISSING, id="shared order"),
        pytest.param([entry(0)], [replace(sold(0), order=None)], "missing", MISSING, id="nameless order"),
        *(([entry(0)], [refused(0, outcome)], "contradicted", "1 sold but denied") for outcome in REFUSED),
        pytest.param([entry(0)], [refused(0, Outcome.ERROR)], "in_doubt", "EXACT, 1 in doubt", id="answer lost"),
        pytest.param(
            [entry(0)], [replace(refused(0, Outcome.UNAVAILABLE), in_doubt=True)], "in_doubt", "EXACT, 1 in doubt",
            id="the shop does not know",
        ),
        pytest.param([entry(0)] * 2, [sold(0)], "duplicates", "1 duplicate", id="the same order twice"),
        pytest.param([], [FIRST, LATER], "missing", MISSING, id="missing, and sold out at a later click"),
        pytest.param([entry(0), Order("order-9", "buyer-0")], [sold(0)], "duplicates", "1 duplicate", id="two orders"),
    ],
)  # fmt: skip
def test_ledger_and_answers_are_compared(ledger: list[Order], answers: list[Answer], found: str, sentence: str) -> None:
    """What one tells and the other does not breaks every promise, and is named; a lost answer is told and forgiven."""
    verdict = Audit(len(ledger), 0, ledger, answers).verdict()
    assert getattr(verdict, found) == 1
    assert sentence in verdict.sentence
    assert verdict.exact is (found == "in_doubt")


def test_each_rule_of_real_time_condemns_alone() -> None:
    """The counts add up: an order that precedes one answered before, or an answer "sold out" before its time, is it."""
    first, second = (replace(sold(n), sent_ms=20.0 * n, answered_ms=20.0 * n + 9) for n in range(2))
    assert Audit(2, 0, [entry(0), entry(1)], [first, second]).verdict().exact
    assert Audit(2, 0, [entry(1), entry(0)], [first, second]).verdict().sentence == "1 out of order"
    early = replace(refused(2), answered_ms=5.0)
    verdict = Audit(2, 0, [entry(0), entry(1)], [first, second, early]).verdict()
    assert verdict.sentence == "1 told sold out too early"
    assert verdict.kind is Kind.FLAWED
    assert Audit(2, 0, [entry(0), entry(1)], [first, second, early], slack_ms=100.0).verdict().exact
    late = section("a", 1, read=1, write=9), section("b", 2, read=5, write=None)
    fenced = Audit(1, 0, [entry(0)], [first], late).verdict()
    assert fenced.sentence == "1 written past the fence"


@pytest.mark.parametrize(("stock", "left"), [(2, 0), (2, 1), (3, 0)])
def test_foreign_orders_leave_nothing_to_judge(stock: int, left: int) -> None:
    """With purchases from outside the rush there is neither EXACT nor a flaw to blame a guard for."""
    ledger = [entry(0), Order("a", "anonymous"), Order("b", "another")]
    verdict = Audit(stock, left, ledger, [sold(0), refused(1)]).verdict()
    assert verdict.foreign == 2
    assert verdict.in_doubt == verdict.contradicted == 0
    assert verdict.sentence == "disturbed by other purchases: no verdict"
    assert not verdict.exact


answers_strategy = st.lists(
    st.tuples(st.integers(0, 8), st.sampled_from(Outcome), st.booleans()).map(
        lambda drawn: replace(sold(drawn[0]), outcome=drawn[1], in_doubt=drawn[2])
    ),
    max_size=12,
)
ledgers = st.lists(st.builds(Order, st.sampled_from("abcdef"), st.integers(0, 8).map("buyer-{}".format)), max_size=12)


@given(stock=st.integers(0, 10), left=st.integers(-5, 10), ledger=ledgers, answers=answers_strategy)
def test_every_order_is_accounted_for(stock: int, left: int, ledger: list[Order], answers: list[Answer]) -> None:
    """No count is negative, only a sale that adds up is EXACT, order does not matter, the findings tell the kind."""
    answers = [replace(answer, sent_ms=number / 100) for number, answer in enumerate(answers)]
    verdict = Audit(stock, left, ledger, answers).verdict()
    assert min(vars(verdict).values()) >= 0
    assert verdict.exact == (verdict.findings.keys() <= {"exact", "in_doubt"})
    if verdict.exact:
        assert len(ledger) + left == stock
        assert len({each.order for each in ledger}) == len(ledger) <= stock
    shuffled = Audit(stock, left, ledger[::-1], answers[::-1]).verdict()
    assert shuffled == verdict


def read(status: int, body: bytes | None) -> Answer:
    """The answer of the shop at http://shop to buyer-0."""
    return Answer.read("buyer-0", "http://shop", status, body, sent=1.0, received=1.5)


def test_a_sold_item() -> None:
    """Order, instance, token and times are taken over; the buyer has its own stopwatch."""
    told = {"outcome": "sold", "order": "x", "instance": "shop-a", "waited_ms": 3.5, "held_ms": 0.5, "token": 7}
    answer = read(200, json.dumps(told).encode())
    assert answer == Answer("buyer-0", Outcome.SOLD, "shop-a", "x", False, 1000.0, 1500.0, 3.5, 0.5, 200, 7)
    assert answer.purchase_ms == 500.0


NONSENSE = [None, b"", b"<html>", b"[]", b'{"outcome": "free beer"}']


@pytest.mark.parametrize(
    ("status", "body", "outcome", "in_doubt"),
    [
        *((status, body, Outcome.ERROR, True) for status in (0, 200, 500, 502) for body in NONSENSE),
        (400, b'{"status": 400, "detail": "no buyer"}', Outcome.ERROR, False),  # for its form, so nothing was bought
        (503, b'{"outcome": "unavailable", "in_doubt": true}', Outcome.UNAVAILABLE, True),
        (503, b'{"outcome": "unavailable", "in_doubt": false}', Outcome.UNAVAILABLE, False),
    ],
)
def test_a_refusal_says_if_it_is_in_doubt(status: int, body: bytes | None, outcome: Outcome, in_doubt: bool) -> None:
    """Without an answer, or with nonsense, the purchase may have been made; an `unavailable` may have been a sale."""
    answer = read(status, body)
    assert answer.outcome is outcome
    assert answer.in_doubt is in_doubt
    assert answer.status == status
    assert answer.instance == "http://shop"
    assert answer.detail == "no buyer" * (status == 400)


def run_of(stock: int, orders: int, *more: Answer, promise: str = "exact", went: int = 0) -> GuardRun:
    """A rush in which so many were sold an item, and others got these answers."""
    answers = [*(sold(n) for n in range(orders)), *more]
    left, ledger = stock - orders, [entry(n) for n in range(orders)]
    verdict = Audit(stock, left, ledger, answers).verdict(went)
    return GuardRun.of("etcd", promise, verdict, stock_left=left, answers=answers)


WENT = [refused(number, Outcome.ERROR) for number in range(1, 9)]
UNANSWERED = [replace(read(status, None), buyer=f"buyer-{9 + n}") for n, status in enumerate((0, 502, 503, 409))]
NO_RECEIPT = [(500, b"{}"), (200, b"null"), (200, b'{"outcome": "sold"}'), (500, b'{"outcome": "sold", "order": "a"}')]


@pytest.mark.parametrize("promise", ["exact", "none"])
@pytest.mark.parametrize(
    ("stock", "answers", "went", "verdict", "result"),
    [
        (5, WENT, 1, "UNDERSOLD by 4, 8 without an answer, an instance went", "instance went"),
        (300, UNANSWERED, 0, "UNDERSOLD by 4, 2 refused, 2 without an answer", "too few answers"),
        *((1, [replace(read(*each), buyer="buyer-9")], 0, "1 answered with an error", "BROKEN") for each in NO_RECEIPT),
    ],
)
def test_buyers_who_were_not_served_are_named(
    promise: str, stock: int, answers: list[Answer], went: int, verdict: str, result: str
) -> None:
    """Where an instance went or too few were served there is no verdict; an answer that is no receipt breaks all."""
    run = run_of(stock, 1, *answers, promise=promise, went=went)
    assert run.verdict == verdict
    assert run.promise_result == result
    assert run.kept_promise is (False if result == "BROKEN" else None)


def test_no_verdict_says_why_and_hides_no_flaw() -> None:
    """It is exit code 2, and names a think time that may be the cause; an oversold sale is broken all the same."""
    for run, why in (
        (run_of(5, 1, *WENT, went=1), "an instance ended during the rush u"),
        (run_of(300, 1, *UNANSWERED), "too few buyers were answered und"),
    ):
        comparison = Comparison(run.stock_left + 1, 9, "", {}, [run])
        assert comparison.exit_code == 2
        assert comparison.sentence.startswith(f"No verdict: {why}")
    assert run_of(0, 1, *WENT, went=1).promise_result == "BROKEN"
    assert run_of(1, 1, *UNANSWERED).kept_promise is True
    assert run_of(5, 1, *WENT).promise_result == "too few answers"
    gave_up = run_of(2, 1, refused(1, Outcome.LOCK_TIMEOUT))
    assert "FLASHSALE_LOCK_TIMEOUT" not in Comparison(2, 2, "", {}, [gave_up]).sentence
    assert "the think time, 12 s for all items" in Comparison(2, 2, "", {}, [gave_up], hold_ms=6000).sentence


def test_a_receipt_counts_although_the_answer_to_a_later_click_differs() -> None:
    """Sold, then sold out to the same buyer: with its order in the ledger all is well."""
    assert Audit(1, 0, [entry(0)], [FIRST, LATER]).verdict().exact
