"""The answer to one click of a buyer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from app.contract.keys import DEFAULT_ITEM
from app.contract.orders import Token
from app.contract.outcomes import Outcome

_NO_ANSWER = (0, HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT)


@dataclass(frozen=True)
class Answer:
    """The answer to one click.

    Attributes:
        buyer: of the click.
        instance: the one that answered; without an answer, the address that was asked.
        order: the order's id, if there is one.
        in_doubt: the purchase may have been made although the answer does not say so.
        sent_ms, answered_ms: milliseconds since the epoch, because buyers of several machines are compared; in a record
            since its start.
        waited_ms: for the guard's turn, as the shop measured it; None if it did not.
        held_ms: inside the critical section, likewise.
        status: of HTTP; 0 without an answer.
        token: the fencing token, if the guard has one.
        detail: the shop's text on an error, if any.
        item: what the buyer wanted.
    """

    buyer: str
    outcome: Outcome
    instance: str
    order: str | None = None
    in_doubt: bool = False
    sent_ms: float = 0.0
    answered_ms: float = 0.0
    waited_ms: float | None = None
    held_ms: float | None = None
    status: int = 0
    token: Token | None = None
    detail: str = ""
    item: str = DEFAULT_ITEM

    @classmethod
    def read(cls, buyer: str, host: str, status: int, body: bytes | None, *, sent: float, received: float) -> Answer:
        """The answer in an HTTP response, with times in seconds; status 0: there was none."""
        times: dict[str, Any] = {"sent_ms": sent * 1000, "answered_ms": received * 1000, "status": status}
        try:
            response = json.loads(body or b"")
            outcome = Outcome(response["outcome"])
            if outcome is Outcome.SOLD and not (status == 200 and isinstance(response["order"], str)):
                raise ValueError("not a receipt")
        except (ValueError, KeyError, TypeError):
            # A refused form was not carried out; after a broken answer, the purchase may have been made.
            doubt = not 400 <= status < 500
            return cls(buyer, Outcome.ERROR, host, in_doubt=doubt, detail=detail_of(body), **times)
        rest = {
            name: response[name] for name in ("order", "in_doubt", "waited_ms", "held_ms", "token") if name in response
        }
        return cls(buyer, outcome, response.get("instance", host), **rest, **times)

    @property
    def is_refused(self) -> bool:
        """Whether the shop said that it did not serve the purchase: a 503, but for a time-out, or a 4xx."""
        says_so = self.status == HTTPStatus.SERVICE_UNAVAILABLE or 400 <= self.status < 500
        return (self.outcome is Outcome.ERROR and says_so) or self.outcome in (Outcome.LOCK_LOST, Outcome.UNAVAILABLE)

    @property
    def is_missing(self) -> bool:
        """Whether no answer of a shop came; a gateway says so in its place."""
        return self.outcome is Outcome.ERROR and self.status in _NO_ANSWER

    @property
    def is_error(self) -> bool:
        """Whether it is neither a receipt nor a refusal."""
        return self.outcome is Outcome.ERROR and not (self.is_refused or self.is_missing)

    @property
    def purchase_ms(self) -> float:
        """From the click to its answer."""
        return self.answered_ms - self.sent_ms


def last_answers(answers: Iterable[Answer]) -> list[Answer]:
    """The answer to each buyer's last request."""
    return list({answer.buyer: answer for answer in sorted(answers, key=lambda answer: answer.sent_ms)}.values())


def wall_s(answers: Sequence[Answer]) -> float:
    """Seconds from the first click to the last answer."""
    return (max(answer.answered_ms for answer in answers) - min(answer.sent_ms for answer in answers)) / 1000


def detail_of(body: bytes | None) -> str:
    """The text in an error document; empty if it has none."""
    try:
        return str(json.loads(body or b"")["detail"])
    except (ValueError, KeyError, TypeError):
        return ""
