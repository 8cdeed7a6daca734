"""The texts are plain: short sentences in README and workshop, no word that the house style avoids anywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("lock/*.md")]
SHORT = [ROOT / "README.md", ROOT / "docs/workshop.md"]
LONGEST = 30  # words of a sentence
AVOIDED = re.compile(r"\b(whoever|whomever|he|she|him|his|hers?|himself|herself)\b", re.IGNORECASE)


def prose(path: Path) -> str:
    """A document without code, output, tables, pictures, comments and the targets of links."""
    text = re.sub(
        r"```.*?```|<!--.*?-->|<picture>.*?</picture>|<[^>]+>", "", path.read_text(encoding="utf-8"), flags=re.S
    )
    text = re.sub(r"^(\|.*|#.*)$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"`[^`\n]*`", "NAME", text)


def sentences(text: str) -> list[str]:
    """The sentences of paragraphs and list items."""
    paragraphs = re.split(r"\n\s*\n|\n\s*[-*\d.]+ ", text)
    return [
        each for paragraph in paragraphs for each in re.split(r"(?<=[.?!:;])[\s)\"*]+", " ".join(paragraph.split()))
    ]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_no_avoided_word(path: Path) -> None:
    """Persons are "they" and things "it"; nobody is called "whoever"."""
    assert [line for line in prose(path).splitlines() if AVOIDED.search(line)] == []


@pytest.mark.parametrize("path", SHORT, ids=lambda path: path.name)
def test_sentences_are_short(path: Path) -> None:
    """None has more than 30 words."""
    found = sentences(prose(path))
    assert len(found) > 20
    assert [each for each in found if len(each.split()) > LONGEST] == []


@pytest.mark.parametrize("package", ["app", "lock", "loadtest", "tests", "scripts"])
def test_no_avoided_word_in_code(package: str) -> None:
    """Docstrings, comments, messages and names keep to the same words."""
    paths = [path for kind in ("py", "js", "lua", "html", "css") for path in (ROOT / package).rglob(f"*.{kind}")]
    found = {
        f"{path.relative_to(ROOT)}:{number}"
        for path in paths
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if AVOIDED.search(line)
    }
    assert found == set()
