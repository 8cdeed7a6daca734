"""The verdict on one rush: the ledger and the buyers' answers, counted and judged. Needs no network and no Locust."""

from __future__ import annotations

from collections.abc import Sequence

from app.contract.outcomes import Outcome
from app.contract.verdict import Verdict, judge
from loadtest.results.answer import Answer, last_answers
from loadtest.results.entry import Entry
from loadtest.results.history import SLACK_MS, History
from loadtest.results.receipts import Receipts


def judge_rush(
    *,
    stock: int,
    stock_left: int,
    ledger: Sequence[Entry],
    answers: Sequence[Answer],
    slack_ms: float = SLACK_MS,
    past_fence: int = 0,
    went: int = 0,
) -> Verdict:
    """Judge one rush in which each buyer wanted one item.

    Args:
        stock: items at the beginning.
        stock_left: what the counters say at the end, with the items that are on their way between two places.
        ledger: the orders of all ledgers.
        answers: one for each click; a buyer who retries has several, and the last one counts.
        slack_ms: by how much the buyers' clocks may differ.
        went: instances that ended, or were replaced, meanwhile.
        past_fence: writes under a token that was fenced off by then, where sections were recorded.
    """
    errors = sum(answer.is_error for answer in answers)
    history = History(answers, slack_ms=slack_ms)
    receipts = Receipts.of(ledger, answers)
    answers = last_answers(answers)
    buyers = {answer.buyer for answer in answers}
    return judge(
        stock=stock,
        stock_left=stock_left,
        sold=len(ledger),
        wanted=len(answers),
        served=sum(answer.outcome.is_served for answer in answers),
        gave_up=sum(answer.outcome is Outcome.LOCK_TIMEOUT for answer in answers),
        refused=sum(answer.is_refused for answer in answers),
        unanswered=sum(answer.is_missing for answer in answers),
        errors=errors,
        duplicates=_duplicates(ledger),
        missing=len(receipts.missing),
        contradicted=len(receipts.denied),
        out_of_order=len(history.out_of_order(ledger)),
        premature=len(history.premature(ledger, stock)),
        past_fence=past_fence,
        went=went,
        in_doubt=sum(entry.buyer in buyers for entry in receipts.unacknowledged),
        foreign=sum(entry.buyer not in buyers for entry in ledger),
    )


def _duplicates(ledger: Sequence[Entry]) -> int:
    bought = {(entry.buyer, entry.order) for entry in ledger}
    repeated = len(ledger) - len({entry.order for entry in ledger})
    return repeated + len(bought) - len({buyer for buyer, _ in bought})
