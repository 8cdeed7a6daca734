"""The verdict on a sale: plain arithmetic over counts, the same for the shop, the board and the rush.

It comes from the ledger and never from the counter, which ends at 0 and looks right, or says that items are left,
however much was oversold. Selling too little is a failure as well, or a guard that refuses all buyers would be best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum

# What a verdict may say, by key; of "one|many", the number chooses.
FINDINGS = {
    "exact": "EXACT",
    "oversold": "OVERSOLD by {n}",
    "undersold": "UNDERSOLD by {n}",
    "gave_up": "gave up: {n}",
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
    FLAWED = "flawed"  # the right number of orders, and something else is wrong
    NONE = "no_verdict"


@dataclass(frozen=True)
class Verdict:
    """The result of a sale; all numbers count items or orders.

    Attributes:
        sold: entries of the ledger.
        oversold: orders beyond the stock.
        undersold: items that buyers wanted and did not get, or that left the counter without an order.
        lost_updates: sales missing from the counter.
        duplicates: entries that repeat an order, or give a buyer a second one for a single click.
        missing: buyers with the answer "sold" that are not in the ledger.
        contradicted: orders whose buyer was told that nothing was bought.
        out_of_order: orders that precede one that was acknowledged before their buyers sent anything.
        premature: answers "sold out" while items were left.
        past_fence: writes under a token that was fenced off by then.
        in_doubt: orders whose buyer got no answer or an uncertain one; neither lost nor wrong.
        strangers: orders of buyers from outside the rush; no guard is to blame.
        gave_up: buyers whose guard ran out of time while they waited for the lock.
        went: instances that ended, or were replaced, meanwhile; no guard is to blame if fewer items are sold by it.
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
    strangers: int = 0
    gave_up: int = 0
    went: int = 0

    @property
    def exact(self) -> bool:
        """Every item was sold once, as its buyer was told, and the counter agrees."""
        return not self.strangers and not self._flaws

    @property
    def kind(self) -> Kind:
        if self.strangers:
            return Kind.NONE
        if self.oversold:
            return Kind.OVERSOLD
        if self.undersold:
            return Kind.UNDERSOLD
        return Kind.EXACT if self.exact else Kind.FLAWED

    @property
    def ran_out_of_time(self) -> bool:
        """What was not sold was left over by buyers who gave up; nothing else is wrong."""
        return 0 < self.undersold <= self.gave_up and self._only_undersold

    @property
    def instance_went(self) -> bool:
        """Items were left over while an instance went; nothing else is wrong."""
        return self.went > 0 and self.undersold > 0 and self._only_undersold

    @property
    def _only_undersold(self) -> bool:
        return self._flaws.keys() <= {"undersold", "gave_up"} and not self.strangers

    @property
    def findings(self) -> dict[str, int]:
        """What it says, by keys of `FINDINGS`: ``{"exact": 0}``, ``{"oversold": 12, "duplicates": 1}``."""
        if self.strangers:
            return {"disturbed": self.strangers}
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
            flaws["gave_up"] = 0
        if self.oversold:  # of which these are how it happens, and not a second finding
            flaws |= dict.fromkeys(_HOW, 0)
        return {name: count for name, count in flaws.items() if count}


_HOW = ("lost_updates", "past_fence")
_NO_FLAWS = ("in_doubt", "went")
_FLAWS = FINDINGS.keys() & {each.name for each in fields(Verdict)} - {*_NO_FLAWS}


def sentence_of(findings: Mapping[str, int], texts: Mapping[str, str] = FINDINGS, comma: str = ", ") -> str:
    """The findings of a verdict in words, by default in English."""
    return comma.join(
        texts[name].split("|")[-1 if count != 1 else 0].format(n=count) for name, count in findings.items()
    )


def judge(*, stock: int, stock_left: int, sold: int, wanted: int, gave_up: int = 0, **more: int) -> Verdict:
    """Judge a sale by its counts.

    Args:
        stock: items at the beginning.
        stock_left: what the counters say, with the items that are on their way between two places.
        sold: orders in all ledgers.
        wanted: buyers that have bought, or could have; items that no buyer wanted are not undersold.
        gave_up: see `Verdict`.
        more: what only answers and sections show: the other members of `Verdict`.
    """
    vanished = stock - sold - stock_left
    return Verdict(
        sold=sold,
        oversold=max(0, sold - stock),
        undersold=max(min(stock, wanted) - sold, vanished, 0),
        lost_updates=max(0, -vanished),
        gave_up=gave_up,
        **more,
    )
