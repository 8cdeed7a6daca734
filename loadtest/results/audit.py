"""The audit of a recorded sale: answers, ledger and critical sections, joined.

It needs nothing but a `Record`, so a kept record can be judged again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.contract.outcomes import Outcome
from app.contract.verdict import FINDINGS
from loadtest.language import Message
from loadtest.results.answer import Answer, last_answers
from loadtest.results.entry import Entry, by_ledger
from loadtest.results.fence import PastFence, past_fence, rank
from loadtest.results.history import History, OutOfOrder, Premature
from loadtest.results.losses import Losses
from loadtest.results.overlaps import Overlaps
from loadtest.results.receipts import Receipts
from loadtest.results.record import CriticalSection, Record

UNANSWERED = "{n} buyer without an answer|{n} buyers without an answer"


@dataclass(frozen=True)
class Audit:
    """The findings on one record. Lists are empty where all is well.

    Attributes:
        sold: entries of the ledger.
        stock_left: the counter at the end.
        stock: items at the beginning.
        overlaps: critical sections that were open at once.
        losses: what each write made of the counter.
        unfinished: sections whose process died inside.
        token_regressions: orders with a lower token than one before it in the ledger, and that order.
        out_of_order, premature, past_fence: what contradicts real time, and writes that a fence must refuse.
        missing: answers that say "sold" of an order that is not in the ledger.
        denied: orders whose buyer's last answer says, without doubt, that nothing was bought.
        unacknowledged: orders whose buyer got no certain answer.
        duplicates: orders that repeat one, or are a second one of the same buyer.
        unanswered: buyers whose last request got no answer.
        longest_stall_ms: the longest time without a sale, from the first request to the last sale.
    """

    stock: int
    sold: int
    stock_left: int
    overlaps: Overlaps
    losses: Losses
    unfinished: list[CriticalSection]
    token_regressions: list[tuple[Entry, Entry]]
    out_of_order: list[OutOfOrder]
    premature: list[Premature]
    past_fence: list[PastFence]
    missing: list[Answer]
    denied: list[Entry]
    unacknowledged: list[Entry]
    duplicates: list[Entry]
    unanswered: list[str]
    longest_stall_ms: float

    @property
    def lost_updates(self) -> int:
        """Sales missing from the counter."""
        return max(0, self.sold + self.stock_left - self.stock)

    def findings(self) -> list[Message]:
        """Flaws that an exact sale under a lock must not have; a missing answer breaks no promise."""
        total = self.sold + self.stock_left
        sums = [] if total == self.stock else [Message.of("sold + stock is {total} of {n}", total=total, n=self.stock)]
        flaws: dict[str, Sequence[object]] = {
            "{n} write that lost sales|{n} writes that lost sales": self.losses.losing,
            "{n} order out of token order|{n} orders out of token order": self.token_regressions,
            "{n} order out of real-time order|{n} orders out of real-time order": self.out_of_order,
            FINDINGS["premature"]: self.premature,
            "{n} write past the fence|{n} writes past the fence": self.past_fence,
            FINDINGS["missing"]: self.missing,
            FINDINGS["contradicted"]: self.denied,
            FINDINGS["duplicates"]: self.duplicates,
        }
        return sums + [Message.of(text, n=len(listed)) for text, listed in flaws.items() if listed]


def audit(record: Record) -> Audit:
    """Judge a record."""
    last = {answer.buyer: answer for answer in last_answers(record.answers)}
    history = History(record.answers, slack_ms=record.slack_ms)
    receipts = Receipts.of(record.ledger, record.answers)
    return Audit(
        stock=record.stock,
        sold=len(record.ledger),
        stock_left=record.verdict["stock_left"],
        overlaps=Overlaps.of(record.sections),
        losses=Losses.of(record.ledger, record.sections, record.stock),
        unfinished=[section for section in record.sections if section.left_ms is None],
        token_regressions=[
            pair for entries in by_ledger(record.ledger).values() for pair in _token_regressions(entries)
        ],
        out_of_order=history.out_of_order(record.ledger),
        premature=history.premature(record.ledger, record.stock),
        past_fence=past_fence(record.sections),
        missing=receipts.missing,
        denied=receipts.denied,
        unacknowledged=receipts.unacknowledged,
        duplicates=list(_duplicates(record.ledger, set(last))),
        unanswered=[buyer for buyer, answer in last.items() if answer.status == 0],
        longest_stall_ms=longest_stall(record.answers),
    )


def _token_regressions(ledger: Sequence[Entry]) -> Iterator[tuple[Entry, Entry]]:
    highest: Entry | None = None
    for row in ledger:
        if row.token is None:
            continue
        if highest is not None and rank(row.token) < rank(highest.token):
            yield row, highest
        else:
            highest = row


def _duplicates(ledger: Sequence[Entry], buyers: set[str]) -> Iterator[Entry]:
    """Orders that repeat one, or another's buyer; buyers from outside the rush may buy more than once."""
    orders = Counter[str]()
    served = Counter[str]()
    for row in ledger:
        if orders[row.order] or (served[row.buyer] and row.buyer in buyers):
            yield row
        orders[row.order] += 1
        served[row.buyer] += 1


def longest_stall(answers: Sequence[Answer]) -> float:
    """The longest time between two sold answers, from the first request on, in milliseconds."""
    if not answers:
        return 0.0
    sales = sorted(answer.answered_ms for answer in answers if answer.outcome is Outcome.SOLD)
    times = [min(answer.sent_ms for answer in answers), *sales]
    return round(max((after - before for before, after in pairwise(times)), default=0.0), 3)
