"""What came of a trial, held against what was expected of it.

A machine that is too slow never makes a guard look wrong. What is written in the ledger and told to the buyers is
judged when the last purchase has ended; what only did not happen in time gives no verdict.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from app.contract.outcomes import Promise
from app.contract.verdict import FINDINGS, Verdict
from labs.faults.scenario import Expected
from loadtest.language import Message
from loadtest.results.audit import Audit
from loadtest.results.record import Expectation

BREAKS_NOT = Message("it did not break: the scenario proves nothing")
OUTLIVED = Message("a holder outlived its lease by itself: the guard promises nothing then")


def no_verdict(expected: Expected, delays: Sequence[Message]) -> Expectation:
    """There was no time for something; with the machine's load, by which that can be understood."""
    cpus = Message.of("{n} CPU|{n} CPUs", n=os.cpu_count() or 1)
    load = Message.of("load {load} on {cpus}", load=round(os.getloadavg()[0], 1), cpus=cpus)
    return Expectation(expected.value, None, [*delays, load])


def judge_trial(
    expected: Expected,
    promise: str,
    verdict: Verdict,
    audit: Audit,
    *,
    failures: Sequence[Message] = (),
    delays: Sequence[Message] = (),
) -> Expectation:
    """Judge a trial whose last purchase has ended, by the verdict on ledger and last answers and by its audit.

    `failures` is what the scenario required in vain, `delays` what did not happen in time.
    """
    blameless = verdict.exact or verdict.too_few_answered
    found = [Message.of(FINDINGS[name], n=n) for name, n in verdict.findings.items()]
    flaws = [*([] if blameless else found), *audit.findings()] if expected is Expected.EXACT else []
    if flaws and promise != Promise.EXACT and audit.overlaps.count:
        delays, flaws = [*delays, OUTLIVED], []
    if verdict.too_few_answered:
        delays = [*delays, *found]
    if audit.unanswered:
        unanswered = "{n} buyer without an answer|{n} buyers without an answer"
        delays = [*delays, Message.of(unanswered, n=len(audit.unanswered))]
    if flaws:
        return Expectation(expected.value, False, [*failures, *flaws])
    if delays:
        return no_verdict(expected, delays)
    is_broken = verdict.oversold or verdict.lost_updates or verdict.missing
    problems = [*failures, *([BREAKS_NOT] if expected is Expected.BREAKS and not is_broken else [])]
    return Expectation(expected.value, not problems, problems)
