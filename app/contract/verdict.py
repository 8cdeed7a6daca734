"""The verdict on a sale: plain arithmetic over counts, the same for the shop, the board and the rush.

It counts the ledger, never the counter: after overselling, the counter may say 0 or that items are left. Selling too
little is a failure, too; otherwise a guard that refuses all buyers would be the best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum

# The sentences of a verdict, by key; "one|many" is singular and plural.
FINDINGS = {
    "exact": "EXACT",
    "oversold": "OVERSOLD by {n}",
    "undersold": "UNDERSOLD by {n}",
    "gave_up": "gave up: {n}",
    "refused": "{n} refused",
    "unanswered": "{n} without an answer",
    "errors": "{n} answered with an error",
    "lost_updates": "{n} lost update|{n} lost updates",
    "duplicates": "{n} duplicate|{n} duplicates",
    "missing": "{n} acknowledged but missing",
    "contradicted": "{n} sold but denied",
    "out_of_order": "{n} out of order",
    "premature": "{n} told sold out too early",
    "past_fence": "{n} written past the fence",
    "in_doubt": "{n} in doubt",
    "went": "an instance went|{n} instances went",
    "disturbed": "disturbed by other purchases: no verdict",
    "too_slow": "no verdict: this machine is too slow",  # it never makes a guard look wrong
}


class Kind(str, Enum):
    """What a verdict says, in a word."""

    EXACT = "exact"
    OVERSOLD = "oversold"
    UNDERSOLD = "undersold"
    FLAWED = "flawed"  # the right number of orders, but something else is wrong
    NONE = "no_verdict"


@dataclass(frozen=True)
class Verdict:
    """The result of a sale; all numbers count items or orders.

    Attributes:
        sold: entries of the ledger.
        oversold: orders beyond the stock.
        undersold: items that buyers wanted but did not get, or that the counter lost without an order.
        lost_updates: sales missing from the counter.
        duplicates: entries that repeat an order, or give a buyer a second one for a single click.
        missing: buyers who were told "sold" and are not in the ledger.
        contradicted: orders whose buyer was told that nothing was bought.
        out_of_order: orders before an order that was acknowledged before they were sent.
        premature: answers "sold out" while items were left.
        past_fence: writes after a read under a higher token.
        in_doubt: orders whose buyer got no answer or an uncertain one; neither lost nor wrong.
        foreign: orders of buyers outside the rush; not the guard's fault.
        gave_up: buyers who timed out while they waited for the lock.
        refused: buyers who were told that the sale was unavailable or the lock lost: a 503.
        unanswered: buyers without an answer. Neither they nor the two before are a broken promise.
        errors: answers that are no receipt and no refusal, such as a 500: a broken promise of any guard.
        unproven: items beyond the buyers who were sold one or told "sold out".
        went: instances that ended or were replaced during the rush; items unsold because of it are not the guard's
            fault.
    """

    sold: int
    oversold: int
    undersold: int
    lost_updates: int
    duplicates: int = 0
    missing: int = 0
    contradicted: int = 0
    out_of_order: int = 0
    premature: int = 0
    past_fence: int = 0
    in_doubt: int = 0
    foreign: int = 0
    gave_up: int = 0
    refused: int = 0
    unanswered: int = 0
    errors: int = 0
    unproven: int = 0
    went: int = 0

    @property
    def exact(self) -> bool:
        """Every item was sold once, as its buyer was told, and the counter agrees."""
        return not self.foreign and not self._flaws

    @property
    def kind(self) -> Kind:
        if self.foreign:
            return Kind.NONE
        if self.oversold:
            return Kind.OVERSOLD
        if self.undersold:
            return Kind.UNDERSOLD
        return Kind.EXACT if self.exact else Kind.FLAWED

    @property
    def ran_out_of_time(self) -> bool:
        """Whether items stayed unsold only because buyers gave up; nothing else is wrong."""
        return 0 < self.undersold <= self.gave_up and self._only_undersold

    @property
    def too_few_answered(self) -> bool:
        """Whether so many buyers were refused or not answered that the rest says nothing about the guard."""
        return self.unproven > 0 and any(getattr(self, name) for name in _UNSERVED) and self._only_undersold

    @property
    def instance_went(self) -> bool:
        """Whether items stayed unsold while an instance ended; nothing else is wrong."""
        return self.went > 0 and self.undersold > 0 and self._only_undersold

    @property
    def _only_undersold(self) -> bool:
        return self._flaws.keys() <= {"undersold", *_UNSERVED} and not self.foreign

    @property
    def findings(self) -> dict[str, int]:
        """The findings, by keys of `FINDINGS`: ``{"exact": 0}``, ``{"oversold": 12, "duplicates": 1}``."""
        if self.foreign:
            return {"disturbed": self.foreign}
        beside = {name: count for name in _NO_FLAWS if (count := getattr(self, name))}
        return (self._flaws or {"exact": 0}) | beside

    @property
    def sentence(self) -> str:
        """The one sentence that terminal, JSON, page and exit code share, such as ``EXACT`` or ``OVERSOLD by 12``."""
        return sentence_of(self.findings)

    @property
    def _flaws(self) -> dict[str, int]:
        flaws = {name: getattr(self, name) for name in FINDINGS if name in _FLAWS}
        if not self.undersold:
            flaws |= dict.fromkeys(_UNSERVED, 0)
        if self.oversold:  # lost updates and late writes are its cause, not further findings
            flaws |= dict.fromkeys(_HOW, 0)
        return {name: count for name, count in flaws.items() if count}


_UNSERVED = ("gave_up", "refused", "unanswered")
_HOW = ("lost_updates", "past_fence")
_NO_FLAWS = ("in_doubt", "went")
_FLAWS = FINDINGS.keys() & {each.name for each in fields(Verdict)} - {*_NO_FLAWS}


def sentence_of(findings: Mapping[str, int], texts: Mapping[str, str] = FINDINGS, comma: str = ", ") -> str:
    """The findings of a verdict in words, by default in English."""
    return comma.join(
        texts[name].split("|")[-1 if count != 1 else 0].format(n=count) for name, count in findings.items()
    )


def judge(*, stock: int, stock_left: int, sold: int, wanted: int, served: int | None = None, **more: int) -> Verdict:
    """Judge a sale by its counts.

    Args:
        stock: items at the beginning.
        stock_left: the counter.
        sold: orders in the ledger.
        wanted: buyers who bought or would have bought; items beyond that number are not undersold.
        served: buyers who were sold an item or told "sold out"; `None` if that is not known.
        more: the other members of `Verdict`, which need answers or the section log.
    """
    vanished = stock - sold - stock_left
    return Verdict(
        sold=sold,
        oversold=max(0, sold - stock),
        undersold=max(min(stock, wanted) - sold, vanished, 0),
        lost_updates=max(0, -vanished),
        unproven=max(0, min(stock, wanted) - served) if served is not None and vanished <= 0 else 0,
        **more,
    )
