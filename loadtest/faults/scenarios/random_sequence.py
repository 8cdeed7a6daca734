"""Everything, in any order."""

from __future__ import annotations

from random import Random

from loadtest.faults.context import ScenarioContext
from loadtest.faults.injections import inject, plan
from loadtest.faults.scenario import Expected, Scenario


class RandomSequence(Scenario):
    """Sale after sale, each with up to four disturbances of random kind, time and length, which may overlap.

    The seed decides what is done and when; what a process is doing at that moment, it does not.
    """

    name = "random"
    what = "sale after sale, each with up to four random disturbances that may overlap, for --seconds"
    lines = True
    members = 3
    unfenced = Expected.EITHER

    def __init__(self, random: Random) -> None:
        self._random = random

    def play(self, context: ScenarioContext) -> None:
        inject(context, plan(self._random))


class RandomOpening(RandomSequence):
    """The same while the instances elect a leader, and it opens the sale."""

    name = "random-opening"
    what = "the same around a scheduled opening"
    opens_in_s = 2
