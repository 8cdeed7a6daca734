"""The Chinese documents say what the English ones say: the same parts, commands, outputs, links and figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAIRS = [(path.with_name(path.name.replace(".zh-CN", "")), path) for path in sorted(ROOT.glob("**/*.zh-CN.md"))]
SHAPES = {
    "headings": r"^(#+) ",
    "generated parts": r"<!-- (\w+: generated -->.*?)<!-- end -->",
    "commands": r"^(?:\$ )?((?:make|curl|docker|\.venv/bin/\w+) [^#\n]*?) *(?:#.*)?$",
    "names in code": r"`([^`\n]+)`",
    "links": r"\]\(([^)#]+)",
    "pictures": r'(?:src|srcset)="([^"]+)"',
    "rows of tables": r"^(\|)",
}


def shape(text: str, pattern: str) -> list[str]:
    """What matches, in order; names and links sorted, because word order differs."""
    found = re.findall(pattern, text, re.MULTILINE | re.DOTALL if "generated" in pattern else re.MULTILINE)
    return found if pattern == SHAPES["generated parts"] else sorted(found)


def test_what_is_translated() -> None:
    """README and workshop are there in Chinese."""
    assert [theirs.name for _, theirs in PAIRS] == ["README.zh-CN.md", "workshop.zh-CN.md"]


@pytest.mark.parametrize("pattern", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[1].name)
def test_both_languages_have_the_same_shape(pair: tuple[Path, Path], pattern: str) -> None:
    """Headings, commands, generated outputs, names, links, pictures and tables are those of the original."""
    ours, theirs = (
        re.sub(r"^(English · .*|.* · 简体中文)$", "", path.read_text(encoding="utf-8"), flags=re.M) for path in pair
    )
    assert shape(theirs.replace(".zh-CN.md", ".md"), pattern) == shape(ours, pattern)
