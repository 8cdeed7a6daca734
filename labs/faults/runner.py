"""The scenarios one after the other, each in its own testbed, as the terminal shows them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner

from labs.faults.context import TrialListener
from labs.faults.monitor import Snapshot
from labs.faults.scenario import Scenario
from labs.faults.scenarios.random_sequence import RandomSequence
from labs.faults.screen import sale_picture
from labs.faults.testbed import Testbed
from labs.faults.trial import Trial
from loadtest.language import ENGLISH, sentence_in
from loadtest.results.audit import audit
from loadtest.results.record import Record
from loadtest.stack.process import scratch_directory

_TOLD = {True: ("green", ", as expected"), False: ("bold red", ", NOT AS EXPECTED"), None: ("yellow", "")}


@dataclass
class ScenarioRunner(TrialListener):
    """What is played, and what came of it.

    Attributes:
        report: directory for the records.
        seconds: for which `random` goes on under each guard.
        seed: of `random`.
        language: of what is shown; the records are English.
        results: of all trials so far.
    """

    console: Console
    report: Path
    seconds: float
    seed: int
    language: str = ENGLISH
    results: list[Record] = field(default_factory=list)
    _live: Live = field(init=False)
    _label: str = ""

    def play(self, scenario: type[Scenario], guards: Sequence[str]) -> None:
        """Play one scenario under each guard that suits it; raises ServerError or SaleError."""
        self.console.print(f"\n[bold]{scenario.name}[/]: {self._said(scenario.summary)}")
        if not (suitable := scenario.suitable(guards)):
            left_out = f"left out: under {', '.join(guards)} no buyer thinks inside a lock"
            self.console.print(f"  {self._said(left_out)}")
            return
        starting = Spinner("dots", self._said("starting etcd, Redis and two shops"))
        with (
            scratch_directory() as directory,
            Live(starting, console=self.console, refresh_per_second=10, transient=True) as self._live,
            Testbed(directory, scenario.setup) as testbed,
        ):
            for guard in suitable:
                if issubclass(scenario, RandomSequence):
                    result = self._play_random(scenario, guard, testbed)
                else:
                    result = self._perform(scenario(), guard, testbed, scenario.name)
                self.results.append(result)
                self._tell(result)

    def _play_random(self, scenario: type[RandomSequence], guard: str, testbed: Testbed) -> Record:
        """Sale after sale with one seed for all guards, until the time is over or one is not as expected.

        The result is the worst of them, but none without a verdict if another has one.
        """
        random, results, until = Random(self.seed), list[Record](), time.monotonic() + self.seconds
        while not results or (results[-1].as_expected is not False and time.monotonic() < until):
            name = f"{scenario.name}-{self.seed}-{len(results) + 1}"
            self.on_event(f"sale {len(results) + 1} of seed {self.seed}")
            results.append(self._perform(scenario(random), guard, testbed, name))
        judged = [each for each in results if each.as_expected is not None] or results
        return max(judged, key=_badness)

    def _perform(self, scenario: Scenario, guard: str, testbed: Testbed, name: str) -> Record:
        self._label = f"{scenario.name}, {guard}"
        record = Trial(scenario, guard, testbed, self).run()
        record.write(self.report / "records" / f"{name}-{guard}.json")
        return record

    def _tell(self, result: Record) -> None:
        style, word = _TOLD[result.as_expected]
        told = self._said(f"{result.verdict['verdict']}{word}")
        self.console.print(f"  {result.guard}: {told}", style=style, markup=False)
        for problem in result.expectation.problems if result.expectation else ():
            self.console.print(f"    {self._said(problem)}", style=style, markup=False)

    def _said(self, sentence: str) -> str:
        return sentence_in(self.language, sentence)

    # What a trial shows

    def on_snapshot(self, seen: Snapshot) -> None:
        self._live.update(sale_picture(self._label, seen, self.language))

    def on_event(self, text: str, at_ms: float = 0.0) -> None:
        self.console.print(f"  {at_ms / 1000:5.1f} s  {self._said(text)}", markup=False)


def _badness(result: Record) -> tuple[bool, bool, float]:
    return not result.as_expected, not result.verdict["exact"], audit(result).longest_stall_ms
