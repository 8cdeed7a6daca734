"""The verdict on one rush: the lists of its audit, counted and judged. Needs no network and no Locust."""

from __future__ import annotations

from collections.abc import Sequence

from app.contract.orders import Order
from app.contract.outcomes import Outcome
from app.contract.verdict import Verdict, judge
from loadtest.results.answer import Answer
from loadtest.results.audit import Audit
from loadtest.results.history import SLACK_MS
from loadtest.results.record import CriticalSection


def judge_rush(
    *,
    stock: int,
    stock_left: int,
    ledger: Sequence[Order],
    answers: Sequence[Answer],
    sections: Sequence[CriticalSection] = (),
    slack_ms: float = SLACK_MS,
    went: int = 0,
) -> Verdict:
    """Judge one rush in which each buyer wanted one item, by an `Audit` of the same arguments.

    `sections` are those in which no write may come past the fence: where that is not promised, none. `went` counts the
    instances that ended, or were replaced, meanwhile.
    """
    audit = Audit(stock, stock_left, ledger, answers, sections, slack_ms)
    last = audit.last_answers.values()
    return judge(
        stock=stock,
        stock_left=stock_left,
        sold=audit.sold,
        wanted=len(last),
        served=sum(answer.outcome.is_served for answer in last),
        gave_up=sum(answer.outcome is Outcome.LOCK_TIMEOUT for answer in last),
        refused=sum(answer.is_refused for answer in last),
        unanswered=sum(answer.is_missing for answer in last),
        errors=sum(answer.is_error for answer in answers),
        duplicates=len(audit.duplicates),
        missing=len(audit.missing),
        contradicted=len(audit.denied),
        out_of_order=len(audit.out_of_order),
        premature=len(audit.premature),
        past_fence=len(audit.past_fence),
        went=went,
        in_doubt=sum(order.buyer in audit.last_answers for order in audit.unacknowledged),
        foreign=len(audit.foreign),
    )
