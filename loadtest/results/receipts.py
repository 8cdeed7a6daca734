"""What the buyers were told, held against the ledger; audit and verdict both have it from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.contract.outcomes import Outcome
from loadtest.results.answer import Answer, last_answers
from loadtest.results.entry import Entry


@dataclass(frozen=True)
class Receipts:
    """Where answers and ledger differ.

    Any answer "sold" is a receipt: a later answer does not take it back. A buyer without one is told by the last answer
    that nothing was bought, unless that answer is in doubt.

    Attributes:
        missing: the last receipt for each order that is not in the ledger.
        denied: orders whose buyer's last answer says, without doubt, that nothing was bought.
        unacknowledged: orders without a receipt whose buyer got no certain answer; those of foreign buyers, too.
    """

    missing: list[Answer]
    denied: list[Entry]
    unacknowledged: list[Entry]

    @classmethod
    def of(cls, ledger: Sequence[Entry], answers: Sequence[Answer]) -> Receipts:
        last = {answer.buyer: answer for answer in last_answers(answers)}
        receipts = {(each.order, each.buyer): each for each in answers if each.outcome is Outcome.SOLD}
        entries = {(entry.order, entry.buyer): entry for entry in ledger}
        silent = [entry for key, entry in entries.items() if key not in receipts]
        denied = [entry for entry in silent if entry.buyer in last and not last[entry.buyer].in_doubt]
        return cls(
            missing=[answer for key, answer in receipts.items() if key not in entries],
            denied=denied,
            unacknowledged=[entry for entry in silent if entry not in denied],
        )
