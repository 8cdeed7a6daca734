"""How a purchase ends, how a lock is lost, and what a guard promises."""

from __future__ import annotations

from enum import Enum


class Outcome(str, Enum):
    """How a purchase ended. Only `SOLD` took an item; after `UNAVAILABLE` the order may exist."""

    SOLD = "sold"
    SOLD_OUT = "sold_out"
    LOCK_TIMEOUT = "lock_timeout"
    LOCK_LOST = "lock_lost"
    UNAVAILABLE = "unavailable"
    ERROR = "error"  # no answer, or an unexpected one: set by the client only; the server never sends it

    @property
    def is_served(self) -> bool:
        """Whether the shop sold an item or was sold out."""
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
