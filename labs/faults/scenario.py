"""What every scenario has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import ClassVar

from app.contract.outcomes import Promise
from app.guards import guards as all_guards
from labs.faults.context import SOME, ScenarioContext
from labs.faults.testbed import Setup
from loadtest.results.record import Record
from loadtest.shop_client.sale import SaleClient


class Expected(str, Enum):
    """What has to come of a run."""

    EXACT = "EXACT"
    BREAKS = "breaks"  # if it does not, the scenario proves nothing
    EITHER = "either"


class Scenario(ABC):
    """One way to disturb a sale.

    The first line of a scenario's docstring says what it does, in lists, in the terminal and in the report; the rest
    says why the sale has to survive it.
    """

    name: ClassVar[str]  # as the command line knows it
    summary: ClassVar[str] = ""  # the first line of the docstring, as the end of a sentence
    sort_key: ClassVar[int] = 1000  # its place among all
    group: ClassVar[str] = ""  # the word that plays it with others about the same thing; empty for none
    setup: ClassVar[Setup] = Setup()  # what it needs of its testbed
    fenced: ClassVar[Expected] = Expected.EXACT  # what has to come of it under a guard that promises exactness
    # The same for a guard that is exact only until a holder outlives its lease.
    unfenced: ClassVar[Expected] = Expected.EXACT
    exceptions: ClassVar[Mapping[str, Expected]] = {}  # what has to come of it under single guards instead, by name
    needs_lock: ClassVar[bool] = True  # whether it breaks a lock, so that a guard without one has nothing to show
    only: ClassVar[Sequence[str]] = ()  # the guards under which it is played, whichever are asked for; empty: any

    def __init_subclass__(cls) -> None:
        line = (cls.__doc__ or "").partition("\n")[0].removesuffix(".")
        cls.summary = line[:1].lower() + line[1:]

    @classmethod
    def suitable(cls, guards: Sequence[str]) -> Sequence[str]:
        """The guards that it is made for, or else those of `guards` under which it can be played."""
        if cls.only:
            return cls.only
        return [guard for guard in guards if all_guards()[guard].loses_lock or not cls.needs_lock]

    @classmethod
    def expected(cls, guard: str) -> Expected:
        """What has to come of it under this guard."""
        is_exact = all_guards()[guard].promise is Promise.EXACT
        return cls.exceptions.get(guard, cls.fenced if is_exact else cls.unfenced)

    def begin(self, sale: SaleClient, stock: int) -> None:
        """Open the sale; raises SaleError."""
        sale.reset(stock)

    def await_start(self, context: ScenarioContext) -> None:
        """Wait until the sale is under way; raises ScenarioError."""
        context.wait_for("the beginning of the sale", lambda: context.monitor.orders >= SOME)

    @abstractmethod
    def play(self, context: ScenarioContext) -> None:
        """Disturb the sale, which is under way; what is left broken is mended afterwards; raises ScenarioError."""

    def review(self, context: ScenarioContext, record: Record) -> None:  # noqa: B027, for many have nothing to add
        """Require what the record has to show beyond the verdict; raises ScenarioError."""
