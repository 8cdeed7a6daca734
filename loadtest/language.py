"""The texts of the commands, the report and Locust's tab in English and Chinese, from one table: texts.json.

Records are English: their verdicts, and what a lab tells of its faults. Both are translated where they are shown. A lab
has the Chinese for its sentences in ``labs/NAME/texts.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path

from app.contract import labs

TEXTS: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("texts.json").read_text(encoding="utf-8"))
LANGUAGES = tuple(TEXTS)
ENGLISH, CHINESE = LANGUAGES


def text_in(language: str, key: str, **values: object) -> str:
    """A text of the table; of "one|many", `n` chooses. Raises KeyError for an unknown language, key or value."""
    one, *many = TEXTS[language][key].split("|")
    return (many[0] if many and values["n"] != 1 else one).format(**values)


def sale_in(language: str, buyers: int | None, stock: int) -> str:
    """How many buyers, if that is known, and how many items."""
    items = text_in(language, "items", n=stock)
    return (
        items
        if buyers is None
        else text_in(language, "sale", buyers=text_in(language, "buyers", n=buyers), items=items)
    )


def heading_in(language: str, column: str) -> str:
    """The heading of a column of the comparison in one line."""
    between = "" if language == CHINESE and column in ("lost_updates", "not_open") else " "
    return text_in(language, f"head.{column}").replace("-\n", "").replace("\n", between)


@lru_cache(1024)  # the live picture has ever new figures
def sentence_in(language: str, sentence: str) -> str:
    """A sentence that is kept in English, or its parts between commas; what no table has stays as it is."""
    if language == ENGLISH:
        return sentence
    for form, chinese in _sentences():
        if found := form.fullmatch(sentence):
            return chinese.format(**{name: sentence_in(language, value) for name, value in found.groupdict().items()})
    parts = sentence.split(", ")
    told = [sentence_in(language, part) for part in parts] if len(parts) > 1 else parts
    return sentence if told == parts else text_in(language, "comma").join(told)


@cache
def _sentences() -> list[tuple[re.Pattern[str], str]]:
    """Each English sentence, as a pattern with groups for its values, and the Chinese one; the longest first."""
    pairs = sorted([*_verdicts(), *lab_sentences().items()], key=lambda pair: len(pair[0]), reverse=True)
    return [(re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+)", re.escape(form))), chinese) for form, chinese in pairs]


def _verdicts() -> Iterator[tuple[str, str]]:
    for key, forms in TEXTS[ENGLISH].items():
        if key.startswith("verdict."):
            yield from ((form, TEXTS[CHINESE][key]) for form in forms.split("|"))


def lab_sentences() -> dict[str, str]:
    """The sentences of the labs: the Chinese by the English."""
    return {
        english: chinese
        for path in sorted(labs.LABS.glob("*/texts.json"))
        for english, chinese in json.loads(path.read_text(encoding="utf-8")).items()
    }


def joined_in(language: str, sentences: Iterable[str]) -> str:
    """Sentences one behind the other: Chinese has no space between them."""
    return ("" if language == CHINESE else " ").join(sentences)
