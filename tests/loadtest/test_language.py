"""The texts of commands, report and tab: both languages have them all, and Chinese fits where English does."""

from __future__ import annotations

import json
import re
import string
from dataclasses import fields

from app.contract.outcomes import Promise
from app.contract.verdict import FINDINGS, Verdict
from loadtest import REPOSITORY
from loadtest.language import CHINESE, ENGLISH, TEXTS, chinese_texts, verdict_in

HAN = r"[\u4e00-\u9fff]"


def placeholders(text: str) -> set[str | None]:
    return {name for form in text.split("|") for _, name, _, _ in string.Formatter().parse(form)} - {None}


def test_both_languages_have_the_same_texts() -> None:
    """The same keys with the same placeholders; a Chinese text is Chinese. So are those of labs."""
    pages = [json.loads(path.read_bytes()) for path in REPOSITORY.glob("labs/*/static/*texts.json")]
    pairs = [*chinese_texts().items()]
    for texts in [TEXTS, *pages]:
        assert texts[ENGLISH].keys() == texts[CHINESE].keys()
        pairs += [(text, texts[CHINESE][key]) for key, text in texts[ENGLISH].items()]
    for english, chinese in pairs:
        assert placeholders(english) == placeholders(chinese), english
        words = re.sub(r"\{.*?\}|English|PIN", "", chinese)
        assert re.search(HAN, words) or not re.search("[A-Za-z]", words), english


def test_every_verdict_has_a_translation() -> None:
    """Whatever is wrong with a sale, only EXACT, OVERSOLD and UNDERSOLD stay beside the Chinese."""
    nothing = dict.fromkeys((field.name for field in fields(Verdict)), 0)
    wrong = [Verdict(**{**nothing, "undersold": 3, name: 2}) for name in nothing if name != "foreign"]
    for verdict in [*wrong, Verdict(**nothing), Verdict(**{**nothing, "foreign": 1})]:
        assert verdict_in(ENGLISH, verdict.findings) == verdict.sentence
        left = re.sub("EXACT|OVERSOLD|UNDERSOLD", "", verdict_in(CHINESE, verdict.findings))
        assert not re.search("[A-Za-z]", left), left
    assert {f"verdict.{name}" for name in FINDINGS} <= set(TEXTS[CHINESE])
    assert {f"promise.{promise.value}" for promise in Promise} <= set(TEXTS[CHINESE])
