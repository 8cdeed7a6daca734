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
from labs.faults.scenario import Scenario
from labs.faults.scenarios.random_sequence import RandomSequence
from labs.faults.screen import sale_picture
from labs.faults.testbed import Testbed
from labs.faults.trial import STOCK, Trial
from loadtest.language import ENGLISH, Message, Value, verdict_in
from loadtest.results.audit import audit
from loadtest.results.record import Record, Sample
from loadtest.stack.process import scratch_directory

_SHOWN = {
    True: ("green", "{verdict}, as expected"),
    False: ("bold red", "{verdict}, NOT AS EXPECTED"),
    None: ("yellow", "{verdict}"),
}


@dataclass
class ScenarioRunner(TrialListener):
    """What is played, and what came of it."""

    console: Console
    report: Path  # directory for the records
    seconds: float  # for which `random` goes on under each guard
    seed: int  # of `random`
    language: str = ENGLISH  # of what is shown
    results: list[Record] = field(default_factory=list)  # of all trials so far
    _live: Live = field(init=False)
    _label: str = ""

    def play(self, scenario: type[Scenario], guards: Sequence[str]) -> None:
        """Play one scenario under each guard that suits it; raises ServerError or SaleError."""
        self.console.print(f"\n[bold]{scenario.name}[/]: {self._shown(scenario.summary)}")
        if not (suitable := scenario.suitable(guards)):
            left_out = "left out: under {guards} no buyer thinks inside a lock"
            self.console.print(f"  {self._shown(left_out, guards=', '.join(guards))}")
            return
        starting = Spinner("dots", self._shown("starting etcd, Redis and two shops"))
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
            self.on_event(Message.of("sale {n} of seed {seed}", n=len(results) + 1, seed=self.seed))
            results.append(self._perform(scenario(random), guard, testbed, name))
        judged = [each for each in results if each.as_expected is not None] or results
        return max(
            judged,
            key=lambda each: (not each.as_expected, not each.verdict["exact"], audit(each).longest_stall_ms),
        )

    def _perform(self, scenario: Scenario, guard: str, testbed: Testbed, name: str) -> Record:
        self._label = f"{scenario.name}, {guard}"
        record = Trial(scenario, guard, testbed, self).run()
        record.write(self.report / "records" / f"{name}-{guard}.json")
        return record

    def _tell(self, result: Record) -> None:
        style, text = _SHOWN[result.as_expected]
        shown = self._shown(text, verdict=verdict_in(self.language, result.verdict["findings"]))
        self.console.print(f"  {result.guard}: {shown}", style=style, markup=False)
        for problem in result.expectation.problems if result.expectation else ():
            self.console.print(f"    {problem.in_language(self.language)}", style=style, markup=False)

    def _shown(self, text: str, /, **values: Value) -> str:
        return Message(text, values).in_language(self.language)

    # What a trial shows

    def on_sample(self, sample: Sample) -> None:
        self._live.update(sale_picture(self._label, sample, STOCK, self.language))

    def on_event(self, what: Message, at_ms: float = 0.0) -> None:
        self.console.print(f"  {at_ms / 1000:5.1f} s  {what.in_language(self.language)}", markup=False)
