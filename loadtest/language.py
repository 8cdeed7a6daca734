"""The texts of the commands, the report and Locust's tab in English and Chinese, from one table: texts.json.

What a record keeps is a text with its values, and becomes a sentence where it is shown. A lab has the Chinese for its
texts in ``labs/NAME/texts.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeAlias

from app.contract import labs
from app.contract.verdict import FINDINGS, sentence_of

TEXTS: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("texts.json").read_text(encoding="utf-8"))
LANGUAGES = tuple(TEXTS)
ENGLISH, CHINESE = LANGUAGES
TEXTS[ENGLISH] |= {f"verdict.{name}": text for name, text in FINDINGS.items()}


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
    between = "" if language == CHINESE and column == "lost_updates" else " "
    return text_in(language, f"head.{column}").replace("-\n", "").replace("\n", between)


def verdict_in(language: str, findings: Mapping[str, int]) -> str:
    """The findings of a verdict, see `Verdict.findings`, as a sentence."""
    texts = {name: TEXTS[language][f"verdict.{name}"] for name in findings}
    return sentence_of(findings, texts, text_in(language, "comma"))


@dataclass(frozen=True)
class Message:
    """A sentence that is made where it is shown, in either language, from an English text and its values.

    Attributes:
        text: with names of values in braces; of "one|many", the value `n` chooses. A lab has the Chinese for it in its
            ``texts.json``.
        values: numbers as they are shown, words, and other messages.
    """

    text: str
    values: dict[str, Message | str | int | float] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, /, **values: Value) -> Message:
        return cls(text, values)

    @classmethod
    def verbatim(cls, text: str) -> Message:
        """A text that is known in one language alone, such as an error."""
        return cls("{text}", {"text": text})

    def __str__(self) -> str:
        return self.in_language(ENGLISH)

    def in_language(self, language: str) -> str:
        """The sentence; English if the language does not have it, and names without a value as they stand."""
        one, *many = known_in(language, self.text).split("|")
        values = {
            name: value.in_language(language) if isinstance(value, Message) else str(value)
            for name, value in self.values.items()
        }
        form = many[0] if many and self.values.get("n") != 1 else one
        return re.sub(r"\{(\w+)\}", lambda name: values.get(name[1], name[0]), form)


def known_in(language: str, text: str) -> str:
    """The text of a verdict or of a lab; as it is if there is no Chinese for it."""
    return text if language == ENGLISH else chinese_texts().get(text, text)


Value: TypeAlias = "Message | str | int | float"


@cache
def chinese_texts() -> dict[str, str]:
    """The texts of verdicts and of the labs: the Chinese by the English."""
    return {text: TEXTS[CHINESE][f"verdict.{name}"] for name, text in FINDINGS.items()} | labs.texts()


def joined_in(language: str, sentences: Iterable[str]) -> str:
    """Sentences one behind the other: Chinese has no space between them."""
    return ("" if language == CHINESE else " ").join(sentences)
