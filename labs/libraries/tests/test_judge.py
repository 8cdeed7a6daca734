"""The judge: what each case reads from what was seen, and how three runs become a cell."""

from __future__ import annotations

from typing import Any

import pytest

from labs.libraries.cases import CASES, COLUMNS
from labs.libraries.cases.case import CellAnswer, Finding, LockCase
from labs.libraries.cases.contention import ArrivalOrder, Exclusion
from labs.libraries.cases.faults import Cut, LostAnswer, Restart
from labs.libraries.cases.leases import KeyDeleted, Killed, Paused, Renewal, TokenRises
from labs.libraries.cases.waiting import Abandoned, Body, Timeout
from labs.libraries.page import WORDS
from labs.libraries.result import VARIES, CaseRun, Cell
from labs.libraries.trial import first_overlap

YES, PARTLY, NO, NOT_OFFERED = CellAnswer.YES, CellAnswer.PARTLY, CellAnswer.NO, CellAnswer.NOT_OFFERED
ALONE = {"overlap": None, "entered": 60, "failed": 0, "error": ""}
KEPT = {
    "offered": True,
    "took_s": 1.0,
    "ended": True,
    "acquired": False,
    "zero_free": True,
    "zero_waits": False,
    "lag_s": 0.0,
}
LEFT = {"offered": True, "left": 0, "next": True, "took_s": 0.1, "lag_s": 0.0}
RAN = {"offered": True, "ran": False, "error": None}
WOKEN = {"replaced": True, "wrote": True, "told_s": None, "refused": False, "robbed": False}
BROKEN = {"other": False, "told": False, "failed": False, "served": True, "served_s": 0.1}
LOST = {
    "written": True,
    "acquired": False,
    "answered": True,
    "answered_s": 0.1,
    "other": True,
    "free_s": 0.1,
    "lag_s": 0.0,
}


@pytest.mark.parametrize(
    ("case", "evidence", "answers"),
    [
        (Exclusion(), ALONE, [YES]),
        (Exclusion(), {**ALONE, "failed": 2, "error": "OSError"}, [PARTLY]),
        (Exclusion(), {**ALONE, "overlap": ("A1", "B2", 1.0)}, [NO]),
        (ArrivalOrder(), {"asked": ["W1", "W2"], "served": ["W1", "W2"]}, [YES]),
        (ArrivalOrder(), {"asked": ["W1", "W2"], "served": ["W2", "W1"]}, [NO]),
        (ArrivalOrder(), {"asked": ["W1", "W2"], "served": ["W1"]}, [PARTLY]),
        (Timeout(), KEPT, [YES]),
        (Timeout(), {"offered": False}, [NOT_OFFERED]),
        (Timeout(), {**KEPT, "acquired": True}, [NO]),
        (Timeout(), {**KEPT, "ended": False}, [NO]),
        (Timeout(), {**KEPT, "took_s": 2.5}, [NO]),
        (Timeout(), {**KEPT, "took_s": 2.5, "lag_s": 1.0}, [YES]),
        (Timeout(), {**KEPT, "took_s": 0.2}, [PARTLY]),
        (Timeout(), {**KEPT, "zero_free": False}, [PARTLY]),
        (Timeout(), {**KEPT, "zero_waits": True}, [PARTLY]),
        (Abandoned(), LEFT, [YES]),
        (Abandoned(), {"offered": False}, [NOT_OFFERED]),
        (Abandoned(), {**LEFT, "left": 1}, [PARTLY]),
        (Abandoned(), {**LEFT, "took_s": 5.0}, [NO]),
        (Abandoned(), {**LEFT, "next": False}, [NO]),
        (Body(), RAN, [YES]),
        (Body(), {**RAN, "error": "LockError: no"}, [YES]),
        (Body(), {**RAN, "ran": True}, [NO]),
        (Body(), {**RAN, "offered": False}, [NOT_OFFERED]),
        (Renewal(), {"other_s": None}, [YES]),
        (Renewal(), {"other_s": 3.0}, [NO]),
        (Killed(), {"free_s": 3.0, "error": "", "lag_s": 0.0}, [YES]),
        (Killed(), {"free_s": 9.0, "error": "", "lag_s": 0.0}, [PARTLY]),
        (Killed(), {"free_s": None, "error": "", "lag_s": 0.0}, [NO]),
        (Killed(), {"free_s": None, "error": "RuntimeError", "lag_s": 0.0}, [NO]),
        (Paused(), WOKEN, [NO, YES]),
        (Paused(), {**WOKEN, "wrote": False}, [YES, YES]),
        (Paused(), {**WOKEN, "told_s": 0.5}, [PARTLY, YES]),
        (Paused(), {**WOKEN, "refused": True, "robbed": True}, [PARTLY, NO]),
        (Paused(), {"replaced": False}, [YES, YES]),
        (TokenRises(), {"tokens": [3, 5, 9]}, [YES]),
        (TokenRises(), {"tokens": [3, 5, 5]}, [NO]),
        (TokenRises(), {"tokens": [3, None, 5]}, [NOT_OFFERED]),
        (KeyDeleted(), {"told_s": 0.1, "refused": False}, [YES]),
        (KeyDeleted(), {"told_s": None, "refused": True}, [PARTLY]),
        (KeyDeleted(), {"told_s": None, "refused": False}, [NO]),
        (Restart(), BROKEN, [YES, YES]),
        (Restart(), {**BROKEN, "failed": True}, [YES, PARTLY]),
        (Restart(), {**BROKEN, "other": True, "told": True}, [PARTLY, YES]),
        (Restart(), {**BROKEN, "other": True}, [NO, YES]),
        (Restart(), {**BROKEN, "served": False}, [YES, NO]),
        (Cut(), {**BROKEN, "other": True, "failed": True}, [NO]),
        (LostAnswer(), LOST, [YES]),
        (LostAnswer(), {**LOST, "acquired": True, "other": False}, [YES]),
        (LostAnswer(), {**LOST, "acquired": True}, [NO]),
        (LostAnswer(), {**LOST, "acquired": True, "other": False, "answered_s": 5.0}, [PARTLY]),
        (LostAnswer(), {**LOST, "free_s": 5.0}, [NO]),
        (LostAnswer(), {**LOST, "answered": False}, [NO]),
    ],
)
def test_a_case_reads_its_evidence(case: LockCase, evidence: dict[str, Any], answers: list[CellAnswer]) -> None:
    """Each column of a case has one answer, whose sentence exists in both languages."""
    findings = case.judge(evidence)
    assert [finding.answer for finding in findings] == answers
    for finding in findings:
        for sentence in WORDS["seen"][finding.seen].values():
            sentence.format(**finding.about)


@pytest.mark.parametrize(
    ("answers", "observed"),
    [([YES], "yes"), ([NO, NO, NO], "no"), ([YES, NO, YES], VARIES), ([], "")],
)
def test_a_cell_varies_unless_its_runs_agree(answers: list[CellAnswer], observed: str) -> None:
    """The same answer each time is that answer."""
    assert Cell([CaseRun(Finding(answer, "alone")) for answer in answers]).observed == observed


@pytest.mark.parametrize(
    ("events", "overlap"),
    [
        (["A enter", "A leave", "B enter", "B leave"], None),
        (["A enter", "B enter", "A leave", "B leave"], ("A", "B", 1)),
        (["A enter"], None),
    ],
)
def test_an_overlap_names_who_was_inside(events: list[str], overlap: tuple[str, str, float] | None) -> None:
    """One that enters while another is inside is found, with the time."""
    lines = [{"at": at, "who": event.split()[0], "event": event.split()[1]} for at, event in enumerate(events)]
    assert first_overlap(lines) == overlap


def test_each_column_is_described_in_both_languages() -> None:
    """A heading, a title, what is done and why, without a gap."""
    assert list(WORDS["columns"]) == list(COLUMNS) == [column for case in CASES for column in case.columns]
    assert all(len(texts[language]) == 4 for texts in WORDS["columns"].values() for language in ("en", "zh"))
