"""The audit of a sale: answers, ledger and critical sections, held against each other, and the verdict by its lists.

A kept record has all that it needs, so it can be judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from app.contract.orders import Order
from app.contract.outcomes import Outcome
from app.contract.verdict import FINDINGS, Verdict, judge
from loadtest.language import Message
from loadtest.results.answer import Answer, last_answers
from loadtest.results.fence import PastFence, past_fence, token_regressions
from loadtest.results.history import SLACK_MS, History, OutOfOrder, Premature
from loadtest.results.losses import Losses
from loadtest.results.overlaps import Overlaps
from loadtest.results.record import CriticalSection, Record


@dataclass(frozen=True)
class Audit:
    """One sale in which each buyer wanted one item. A list is made when it is first read, and empty if all is well.

    Any answer "sold" is a receipt: a later answer does not take it back. A buyer without one is told by the last answer
    that nothing was bought, unless that answer is in doubt.

    Attributes:
        stock: items at the beginning.
        stock_left: what the counter says at the end.
        ledger: the orders, in the order in which they were written.
        answers: one for each click; a buyer who retries has several.
        sections: empty if they were not recorded. For a verdict, those in which no write may come past the fence.
        slack_ms: by how much the buyers' clocks may differ.
    """

    stock: int
    stock_left: int
    ledger: Sequence[Order]
    answers: Sequence[Answer]
    sections: Sequence[CriticalSection] = ()
    slack_ms: float = SLACK_MS

    @property
    def sold(self) -> int:
        return len(self.ledger)

    @property
    def lost_updates(self) -> int:
        """Sales missing from the counter."""
        return max(0, self.sold + self.stock_left - self.stock)

    @cached_property
    def last_answers(self) -> dict[str, Answer]:
        """The last answer to each buyer."""
        return {answer.buyer: answer for answer in last_answers(self.answers)}

    @cached_property
    def foreign(self) -> list[Order]:
        """Orders of buyers from outside the rush."""
        return [order for order in self.ledger if order.buyer not in self.last_answers]

    @cached_property
    def missing(self) -> list[Answer]:
        """The last receipt for each order that is not in the ledger."""
        return [answer for key, answer in self._receipts.items() if key not in self._orders]

    @cached_property
    def denied(self) -> list[Order]:
        """Orders whose buyer was told, without doubt, that nothing was bought."""
        return [order for order in self._silent if self._is_denied(order.buyer)]

    @cached_property
    def unacknowledged(self) -> list[Order]:
        """Orders whose buyer got no certain answer; those of foreign buyers, too."""
        return [order for order in self._silent if not self._is_denied(order.buyer)]

    @cached_property
    def duplicates(self) -> list[Order]:
        """Orders that stand there again, and further orders of a buyer of this rush."""
        ours = [order for order in self._orders.values() if order.buyer in self.last_answers]
        again = _repeated(self.ledger, lambda order: order.order)
        return [*again, *_repeated(ours, lambda order: order.buyer)]

    @cached_property
    def unanswered(self) -> list[str]:
        """Buyers whose last request got no answer."""
        return [buyer for buyer, answer in self.last_answers.items() if answer.status == 0]

    @cached_property
    def out_of_order(self) -> list[OutOfOrder]:
        """Orders that contradict real time."""
        return self._history.out_of_order(self.ledger)

    @cached_property
    def premature(self) -> list[Premature]:
        """Answers "sold out" that contradict real time."""
        return self._history.premature(self.ledger, self.stock)

    @cached_property
    def token_regressions(self) -> list[tuple[Order, Order]]:
        """Orders with a lower token than one before it in the ledger, and that order."""
        return token_regressions(self.ledger)

    @cached_property
    def past_fence(self) -> list[PastFence]:
        """Writes that a fence must refuse."""
        return past_fence(self.sections)

    @cached_property
    def overlaps(self) -> Overlaps:
        """Critical sections that were open at once."""
        return Overlaps.of(self.sections)

    @cached_property
    def losses(self) -> Losses:
        """What each write made of the counter."""
        return Losses.of(self.ledger, self.sections, self.stock)

    @cached_property
    def unfinished(self) -> list[CriticalSection]:
        """Sections whose process died inside."""
        return [section for section in self.sections if section.left_ms is None]

    @cached_property
    def longest_stall_ms(self) -> float:
        """The longest time between two sold answers, from the first request on."""
        sent = sorted(answer.sent_ms for answer in self.answers)[:1]
        sales = sorted(answer.answered_ms for answer in self.answers if answer.outcome is Outcome.SOLD)
        return round(max((after - before for before, after in pairwise([*sent, *sales])), default=0.0), 3)

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

    def verdict(self, went: int = 0) -> Verdict:
        """These lists, counted and judged; `went` counts the instances that ended, or were replaced, meanwhile."""
        last = self.last_answers.values()
        return judge(
            stock=self.stock,
            stock_left=self.stock_left,
            sold=self.sold,
            wanted=len(last),
            served=sum(answer.outcome.is_served for answer in last),
            gave_up=sum(answer.outcome is Outcome.LOCK_TIMEOUT for answer in last),
            refused=sum(answer.is_refused for answer in last),
            unanswered=sum(answer.is_missing for answer in last),
            errors=sum(answer.is_error for answer in self.answers),
            duplicates=len(self.duplicates),
            missing=len(self.missing),
            contradicted=len(self.denied),
            out_of_order=len(self.out_of_order),
            premature=len(self.premature),
            past_fence=len(self.past_fence),
            went=went,
            in_doubt=sum(order.buyer in self.last_answers for order in self.unacknowledged),
            foreign=len(self.foreign),
        )

    @cached_property
    def _history(self) -> History:
        return History(self.answers, slack_ms=self.slack_ms)

    @cached_property
    def _orders(self) -> dict[tuple[str | None, str], Order]:
        return {(each.order, each.buyer): each for each in self.ledger}

    @cached_property
    def _receipts(self) -> dict[tuple[str | None, str], Answer]:
        return {(each.order, each.buyer): each for each in self.answers if each.outcome is Outcome.SOLD}

    @property
    def _silent(self) -> list[Order]:
        """The orders without a receipt."""
        return [order for key, order in self._orders.items() if key not in self._receipts]

    def _is_denied(self, buyer: str) -> bool:
        return buyer in self.last_answers and not self.last_answers[buyer].in_doubt


def audit(record: Record) -> Audit:
    """The audit of a record."""
    rows = record.ledger, record.answers, record.sections
    return Audit(record.stock, record.verdict["stock_left"], *rows, record.slack_ms)


def _repeated(orders: Iterable[Order], key: Callable[[Order], str]) -> Iterator[Order]:
    """The orders whose key another one had before."""
    seen = set[str]()
    for order in orders:
        if key(order) in seen:
            yield order
        seen.add(key(order))
