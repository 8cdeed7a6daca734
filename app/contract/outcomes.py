"""How a purchase ends, how a lock is lost, and what a guard promises."""

from __future__ import annotations

from enum import Enum


class Outcome(str, Enum):
    """How a purchase ended. They are never conflated: only `SOLD` took an item; `UNAVAILABLE` may be in doubt."""

    SOLD = "sold"
    SOLD_OUT = "sold_out"
    LOCK_TIMEOUT = "lock_timeout"
    LOCK_LOST = "lock_lost"
    UNAVAILABLE = "unavailable"
    ERROR = "error"  # no answer, or one that the shop should not give: the buyer's word, never the shop's

    @property
    def is_served(self) -> bool:
        """Whether the shop sold, or truly had nothing left."""
        return self in (Outcome.SOLD, Outcome.SOLD_OUT)


ANSWERS = tuple(outcome for outcome in Outcome if outcome is not Outcome.ERROR)  # that the shop gives


class LossCause(str, Enum):
    """How a lock was found to be lost, before or after the write."""

    SESSION_LOST = "session_lost"
    HOLD_LOST = "hold_lost"
    FENCED_OFF = "fenced_off"
    SALE_RESET = "sale_reset"
    RELEASED_LATE = "released_late"


class Promise(str, Enum):
    """The promise of a guard about a sale; a run that breaks it has failed."""

    NONE = "none"
    EXACT_UNTIL_PAUSED = "exact_until_paused"
    EXACT = "exact"
