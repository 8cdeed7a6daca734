"""The texts of the commands, the report and Locust's tab in English and Chinese, from one table: texts.json."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

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


def verdict_in(language: str, sentence: str) -> str:
    """The sentence of a verdict, which is kept in English; a part that the table has not stays as it is."""
    if language == ENGLISH:
        return sentence
    return text_in(language, "comma").join(_verdict_part(language, part) for part in sentence.split(", "))


def _verdict_part(language: str, part: str) -> str:
    for key, forms in TEXTS[ENGLISH].items():
        for form in forms.split("|") if key.startswith("verdict.") else ():
            if found := re.fullmatch(re.escape(form).replace(re.escape("{n}"), r"(\d+)"), part):
                return text_in(language, key, n=int(found[1]) if found.groups() else 0)
    return part


def joined_in(language: str, sentences: Iterable[str]) -> str:
    """Sentences one behind the other: Chinese has no space between them."""
    return ("" if language == CHINESE else " ").join(sentences)
