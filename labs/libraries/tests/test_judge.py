"""The judge: what the cases read from what was seen, and how three runs become a cell."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from labs.libraries.cases import COLUMNS
from labs.libraries.cases.case import CellAnswer, Finding, no, yes
from labs.libraries.cases.contention import judge_tokens
from labs.libraries.cases.faults import judge_broken, judge_lost
from labs.libraries.cases.leases import judge_told
from labs.libraries.cases.waiting import judge_timeout
from labs.libraries.page import PROMISES, WORDS
from labs.libraries.result import VARIES, CaseRun, Cell
from loadtest import REPOSITORY

YES, PARTLY, NO, NOT_OFFERED = CellAnswer.YES, CellAnswer.PARTLY, CellAnswer.NO, CellAnswer.NOT_OFFERED
KEPT: dict[str, Any] = {"took_s": 1.0, "offered": True, "takes_free": True, "waits": False, "lag_s": 0.0}
BROKEN = {"other": False, "told": False, "failed": False, "served": True}
LOST: dict[str, Any] = {"acquired": False, "answered_s": 0.1, "free_s": 0.1, "lag_s": 0.0}
told = partial(judge_told, yes("told", s=0.1))


@pytest.mark.parametrize(
    ("finding", "answer"),
    [
        (judge_timeout(**KEPT), YES),
        (judge_timeout(**{**KEPT, "took_s": None}), NO),
        (judge_timeout(**{**KEPT, "took_s": 2.5}), NO),
        (judge_timeout(**{**KEPT, "took_s": 2.5, "lag_s": 1.0}), YES),
        (judge_timeout(**{**KEPT, "took_s": 0.2}), PARTLY),
        (judge_timeout(**{**KEPT, "takes_free": False}), PARTLY),
        (judge_timeout(**{**KEPT, "takes_free": False, "offered": False}), PARTLY),
        (judge_timeout(**{**KEPT, "waits": True}), PARTLY),
        (told(0.1, True, False), YES),
        (told(None, True, True), PARTLY),
        (told(None, True, False), NO),
        (told(None, False, False), NOT_OFFERED),
        (judge_broken(**BROKEN)[0], YES),
        (judge_broken(**BROKEN)[1], YES),
        (judge_broken(**{**BROKEN, "failed": True})[1], PARTLY),
        (judge_broken(**{**BROKEN, "served": False})[1], NO),
        (judge_broken(**{**BROKEN, "other": True, "told": True})[0], PARTLY),
        (judge_broken(**{**BROKEN, "other": True})[0], NO),
        (judge_lost(**LOST), YES),
        (judge_lost(**{**LOST, "free_s": 5.0}), NO),
        (judge_lost(**{**LOST, "free_s": None}), NO),
        (judge_lost(**{**LOST, "answered_s": 5.0}), PARTLY),
        (judge_lost(**{**LOST, "acquired": True}), NO),
        (judge_lost(**{**LOST, "acquired": True, "free_s": None}), YES),
        (judge_lost(**{**LOST, "acquired": True, "free_s": None, "answered_s": 5.0}), PARTLY),
    ],
)
def test_a_case_reads_what_was_seen(finding: Finding, answer: CellAnswer) -> None:
    """It has one answer, whose sentence exists in both languages."""
    assert finding.answer == answer
    for sentence in WORDS["seen"][finding.seen].values():
        sentence.format(**finding.about)


@pytest.mark.parametrize(
    ("answers", "observed"),
    [([YES], "yes"), ([NO, NO, NO], "no"), ([YES, NO, YES], VARIES), ([], "")],
)
def test_a_cell_varies_unless_its_runs_agree(answers: list[CellAnswer], observed: str) -> None:
    """The same answer each time is that answer."""
    assert Cell([CaseRun(Finding(answer, "alone")) for answer in answers]).observed == observed


def test_tokens_rise_with_every_turn() -> None:
    """One that does not is named with the one before; without a number there is nothing to compare."""
    assert judge_tokens([3, 7, 9]) == yes("rises", n=3)
    assert judge_tokens([3, 7, 7]) == no("does_not_rise", first=7, second=7)
    assert judge_tokens([None, None]).answer is NOT_OFFERED


def test_each_word_stands_in_both_languages() -> None:
    """Columns, answers, sentences and events have no gap, and each promise is about a column and quotes a page."""
    assert list(WORDS["columns"]) == list(COLUMNS)
    assert {*WORDS["answers"]} == {*(answer.value for answer in CellAnswer if answer.value != "figure"), VARIES, ""}
    for part in ("columns", "answers", "seen", "events", "page"):
        assert all({*texts} == {"en", "zh"} for texts in WORDS[part].values())
    for library in PROMISES.values():
        assert {*library["promises"]} <= {*COLUMNS}
        assert {page for _, _, page in library["promises"].values()} <= {*library["pages"]}


def test_our_own_promises_stand_in_our_documents() -> None:
    """Each quotation is there, word for word but for its line breaks."""
    texts = {key: (REPOSITORY / name).read_text() for key, (name, _) in PROMISES["ours"]["pages"].items()}
    pages = {key: " ".join(text.split()) for key, text in texts.items()}
    missing = [quote for _, quote, page in PROMISES["ours"]["promises"].values() if quote not in pages[page]]
    assert missing == []
