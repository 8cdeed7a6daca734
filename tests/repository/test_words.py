"""An extra stands beside the core: no word that only a lab needs is in a name, a text or a comment there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KINDS = {".py", ".lua", ".js", ".css", ".html", ".json", ".toml", ".md"}
FILES = sorted(path for package in ("app", "lock", "loadtest") for path in (ROOT / package).rglob("*"))
WORDS = {
    "cart": r"(?<![a-z])carts?(?![a-z])",
    "not open": "not[ _-]?open(?!e)",
    "opens in": "opens?[ _-]in(?![a-z])",
}


def files_with(pattern: str) -> set[str]:
    """Files whose path or text has it."""
    told = {path.relative_to(ROOT).as_posix(): path for path in FILES if path.suffix in KINDS}
    found = re.compile(pattern, re.IGNORECASE)
    return {name for name, path in told.items() if found.search(name + "\n" + path.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("word", WORDS)
def test_the_core_has_no_word_of_a_lab(word: str) -> None:
    """No file of `app`, `lock` and `loadtest` has it."""
    assert not files_with(WORDS[word])
