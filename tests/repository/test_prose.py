"""The words of code and documents: make lint finds in documents what the house style avoids, and this test in code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import prose

ROOT = Path(__file__).resolve().parents[2]
AVOIDED = re.compile(r"\b(whoever|whomever|he|she|him|his|hers?|himself|herself)\b", re.IGNORECASE)
RULES = ROOT / "scripts/prose.py", Path(__file__)


@pytest.fixture(scope="module", autouse=True)
def house_style() -> None:
    """The checks of make lint."""
    prose.register()


@pytest.mark.parametrize("path", prose.TEXTS, ids=lambda path: path.name)
def test_a_document_is_plain(path: Path) -> None:
    """Neither proselint nor the house style complains; in README and workshop no sentence has more than 30 words."""
    assert prose.lint(path) == []


def words(count: int) -> str:
    """A sentence of so many words."""
    return " ".join(f"word{number}" for number in range(count)) + "."


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Ask whoever holds it.", "Persons"),
        ("The page has a process of its own.", "its own lock"),
        ("That is no rush.", "is not a"),
        ("It ends. Nobody waits.", "Name the thing"),
        ("There is no wait, and it is no longer held: `he` is code.", ""),
        (words(31), "more than 30 words"),
        (f"{words(30)} {words(30)}", ""),
        ("At this moment in time it ends.", "moment in time"),
    ],
)
def test_the_linter_complains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, complaint: str) -> None:
    """It names file and line; code, headings and tables are left out."""
    path = tmp_path / "text.md"
    path.write_text(f"# He\n\n| she |\n\n{text}\n", encoding="utf-8")
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr(prose, "SHORT", (path,))
    found = prose.lint(path)
    assert [line.startswith("text.md:5: ") and complaint in line for line in found] == [True] * bool(complaint), found


@pytest.mark.parametrize("package", ["app", "lock", "loadtest", "tests", "scripts"])
def test_no_avoided_word_in_code(package: str) -> None:
    """Docstrings, comments, messages and names keep to the same words."""
    paths = [path for kind in ("py", "js", "lua", "html", "css") for path in (ROOT / package).rglob(f"*.{kind}")]
    found = {
        f"{path.relative_to(ROOT)}:{number}"
        for path in paths
        if path not in RULES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if AVOIDED.search(line)
    }
    assert found == set()
