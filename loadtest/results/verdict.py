"""The verdict on one rush: the ledger against the buyers' answers. Pure arithmetic, without network and without Locust.

It comes from the ledger and never from the counter, which ends at 0 and looks right, or says that items are left,
however much was oversold. Selling too little is a failure as well, or a guard that refuses all buyers would be best.
tests/data/verdicts.json holds this verdict to that of the shop, which the board shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from loadtest.results.answer import Answer, Outcome, Token

NO_VERDICT = "disturbed by other purchases: no verdict"


@dataclass(frozen=True)
class Order:
    """One entry of the ledger.

    Attributes:
        instance: which instance wrote it.
        token: the fencing token under which it was written, if the guard has one.
        at_ms: when, in milliseconds since the epoch, by the instance's clock; in a record since its start.
    """

    order: str
    buyer: str
    instance: str = ""
    guard: str = ""
    token: Token | None = None
    at_ms: float = 0

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Order:
        """The order in an entry of Redis; other members are left out."""
        return cls(**{each.name: entry[each.name] for each in fields(cls)})


@dataclass(frozen=True)
class Verdict:
    """The result of a rush; all numbers count items or orders.

    Attributes:
        sold: entries of the ledger.
        oversold: orders beyond the stock.
        undersold: items that buyers wanted and did not get, or that left the counter without an order.
        lost_updates: sales missing from the counter.
        duplicates: entries that repeat an order, or give a buyer a second one for a single click.
        missing: buyers with the answer "sold" that are not in the ledger.
        contradicted: orders whose buyer was told that nothing was bought.
        in_doubt: orders whose buyer got no answer or an uncertain one; neither lost nor wrong.
        gave_up: buyers whose guard ran out of time while they waited for the lock.
        busy: buyers for whom an instance had no room.
        early: items sold before the opening.
        strangers: orders of buyers from outside the rush; no guard is to blame.
    """

    sold: int
    oversold: int
    undersold: int
    lost_updates: int
    duplicates: int = 0
    missing: int = 0
    contradicted: int = 0
    in_doubt: int = 0
    strangers: int = 0
    gave_up: int = 0
    busy: int = 0
    early: int = 0

    @property
    def exact(self) -> bool:
        """Every item was sold once, as its buyer was told, and the counter agrees."""
        return not self.strangers and not any(count for count, _ in self._flaws())

    @property
    def ran_out_of_time(self) -> bool:
        """What was not sold was left over by buyers who gave up or were told "busy"; nothing else is wrong."""
        named = 1 + bool(self.gave_up) + bool(self.busy)
        flaws = [name for count, name in self._flaws() if count]
        return 0 < self.undersold <= self.gave_up + self.busy and len(flaws) == named and not self.strangers

    @property
    def sentence(self) -> str:
        """The one sentence that terminal, JSON, page and exit code share, such as ``EXACT`` or ``OVERSOLD by 12``."""
        if self.strangers:
            return NO_VERDICT
        flaws = [text for count, text in self._flaws() if count] or ["EXACT"]
        return ", ".join([*flaws, f"{self.in_doubt} in doubt"] if self.in_doubt else flaws)

    def _flaws(self) -> Iterable[tuple[int, str]]:
        yield self.oversold, f"OVERSOLD by {self.oversold}"
        yield self.undersold, f"UNDERSOLD by {self.undersold}"
        yield self.gave_up if self.undersold else 0, f"gave up: {self.gave_up}"
        yield self.busy if self.undersold else 0, f"busy: {self.busy}"
        # Lost updates are how a sale oversells, and not a second finding.
        yield (
            0 if self.oversold else self.lost_updates,
            f"{self.lost_updates} lost update{'s' if self.lost_updates > 1 else ''}",
        )
        yield self.duplicates, f"{self.duplicates} duplicate{'s' if self.duplicates > 1 else ''}"
        yield self.missing, f"{self.missing} acknowledged but missing"
        yield self.contradicted, f"{self.contradicted} sold but denied"
        yield self.early, f"{self.early} sold before the opening"


def judge(
    *, stock: int, stock_left: int, ledger: Sequence[Order], answers: Sequence[Answer], opens_at: float = 0.0
) -> Verdict:
    """Judge one rush in which each buyer clicked once.

    Args:
        stock: items at the beginning.
        stock_left: what the counters say at the end, with the items that are on their way between two shards.
        ledger: the orders of all ledgers.
        answers: one for each click.
        opens_at: when a scheduled sale opens at the earliest, in seconds since the epoch.
    """
    acknowledged = {(answer.order, answer.buyer) for answer in answers if answer.outcome is Outcome.SOLD}
    entries = {(entry.order, entry.buyer) for entry in ledger}
    buyers = {answer.buyer for answer in answers}
    uncertain = {answer.buyer for answer in answers if answer.in_doubt}
    certain = buyers - uncertain
    unacknowledged = [buyer for _, buyer in entries - acknowledged]
    return Verdict(
        sold=len(ledger),
        oversold=max(0, len(ledger) - stock),
        undersold=_undersold(stock, stock_left, len(ledger), sum(_wants(answer, opens_at) for answer in answers)),
        lost_updates=max(0, len(ledger) + stock_left - stock),
        duplicates=_duplicates(ledger),
        missing=sum(pair not in entries for pair in acknowledged),
        contradicted=sum(buyer in certain for buyer in unacknowledged),
        in_doubt=sum(buyer in uncertain for buyer in unacknowledged),
        strangers=sum(entry.buyer not in buyers for entry in ledger),
        gave_up=sum(answer.outcome is Outcome.LOCK_TIMEOUT for answer in answers),
        busy=sum(answer.outcome is Outcome.BUSY for answer in answers),
        early=sum(answer.outcome is Outcome.SOLD and answer.answered_ms < opens_at * 1000 for answer in answers),
    )


def _wants(answer: Answer, opens_at: float) -> bool:
    """Whether the buyer could have had an item: one that came before the opening, and never again, could not."""
    return answer.outcome is not Outcome.NOT_OPEN or answer.sent_ms >= opens_at * 1000


def _undersold(stock: int, stock_left: int, sold: int, wanted: int) -> int:
    """Unsold items count as far as they were wanted."""
    wanted = min(stock, wanted) - sold
    vanished = stock - sold - stock_left
    return max(wanted, vanished, 0)


def _duplicates(ledger: Sequence[Order]) -> int:
    bought = {(entry.buyer, entry.order) for entry in ledger}
    repeated = len(ledger) - len({entry.order for entry in ledger})
    return repeated + len(bought) - len({buyer for buyer, _ in bought})
