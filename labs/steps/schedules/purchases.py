"""Purchases of a world as they were seen last, and what pages show of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.contract.orders import Token
from app.contract.outcomes import Outcome
from labs.steps.schedules.instances import SteppedInstance
from loadtest.results.answer import Answer

PURCHASE = (  # the columns of `Shown.purchases`
    "point", "line", "command", "stands", "waits", "frozen",
    "dead", "token", "stock_read", "outcome", "stock", "detail",
)  # fmt: skip
MOMENT_MS = 1000.0  # between two moments of a `Timeline`


@dataclass
class Stepped:
    """A purchase as it was seen last; see `labs.steps.schedules.worker` for what is told of it."""

    buyer: str
    instance: SteppedInstance
    point: str = "start"
    stands: bool = True
    stops: int = 1
    waits: bool = False
    waits_for: str = ""  # without standing
    is_dead: bool = False
    begins: bool = True  # an attempt
    in_vain: bool = False
    command: str = ""
    writes: bool = False
    watching: Sequence[int] = ()  # ports of its connections that have sent WATCH
    line: int | None = None
    stock_read: int | None = None
    stock: int | None = None
    sent: list[str] = field(default_factory=list)
    paused: int = 0
    idle_s: float = 0.0
    is_asking: bool = False  # an answer of a server is still out
    is_busy: bool = False  # another thread than the one that stands, or has answered, goes on
    clocks: Sequence[float] = ()  # how many seconds had passed when it looked at a clock
    names: Sequence[int] = ()  # of its thread
    token: Token | None = None
    outcome: str | None = None
    order: str = ""
    sold: str | None = None  # the order that its buyer was told of
    in_doubt: bool = False
    detail: str = ""
    failure: str = ""
    lease: int = 0  # of its instance's session

    @property
    def is_over(self) -> bool:
        """Whether nothing comes from it any more."""
        return self.is_dead or (self.point == "over" and not self.stands and not self.is_busy)

    @property
    def is_answered(self) -> bool:
        """Whether its buyer has the answer, or will have none."""
        return self.is_dead or self.point == "over"

    @property
    def is_quiescent(self) -> bool:
        return (self.stands and not self.is_busy) or self.is_over or self.instance.frozen

    @property
    def is_in_doubt(self) -> bool:
        """Whether its last answer was lost, so that it soon sends once more."""
        return bool(self.sent) and self.sent[-1] == "> lost"

    @property
    def has_begun(self) -> bool:
        return self.stops > 1

    @property
    def can_step(self) -> bool:
        return self.stands and not self.is_dead and not self.waits

    def answer(self, sent_ms: float, answered_ms: float) -> Answer:
        """What its buyer was told; after the death of the instance, nothing."""
        outcome = Outcome.ERROR if self.is_dead or self.outcome is None else Outcome(self.outcome)
        return Answer(
            self.buyer,
            outcome,
            self.instance.name,
            self.sold if outcome is Outcome.SOLD else None,
            self.in_doubt or outcome is Outcome.ERROR,
            sent_ms,
            answered_ms,
            token=self.token,
            status=0 if outcome is Outcome.ERROR else 200,
        )


class Timeline:
    """Who was over before who began, and no more of time: that is all that the judge may read of it."""

    def __init__(self) -> None:
        self._moments: dict[tuple[str, str], int] = {}  # events in a row happen at one moment
        self._last, self._now = "", 0

    def note(self, event: str, buyer: str) -> None:
        """A purchase "begins", or is "over"; only the first time counts."""
        if (event, buyer) not in self._moments:
            self._last, self._now = event, self._now + (event != self._last)
            self._moments[event, buyer] = self._now

    def times_ms(self, buyer: str) -> tuple[float, float]:
        """When it began and when it was over; a time behind all others if it has or is not."""
        never = self._now + 1
        begins, over = (self._moments.get((event, buyer), never) for event in ("begins", "over"))
        return begins * MOMENT_MS, over * MOMENT_MS

    def __str__(self) -> str:
        moments = sorted(self._moments.items(), key=lambda each: (each[1], each[0]))
        return ", ".join(f"{event} {buyer} {moment}" for (event, buyer), moment in moments)


@dataclass(frozen=True)
class Shown:
    """What the scheduler's page shows of a state; tokens are told by their order, from 1."""

    purchases: list[tuple[Any, ...]]  # a row for each buyer, its columns are `PURCHASE`
    stock: str
    orders: int
    fence: str | None
    queue: list[tuple[str, str | None]]  # buyer and token of each key
