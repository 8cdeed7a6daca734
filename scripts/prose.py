"""Lint the documents' prose: proselint's checks, and the house style as checks beside them. Run by make lint.

The checks read sentences: code, outputs, tables, pictures, comments and the targets of links are left out.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from proselint.checks import __register__
from proselint.config import DEFAULT
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check, CheckResult, engine, types
from proselint.tools import LintFile

ROOT = Path(__file__).resolve().parent.parent
TEXTS = sorted(
    path
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("lock/*.md"))
    if "zh-CN" not in path.name and path.name != "lock-api.md"  # generated from docstrings
)
SHORT = (ROOT / "README.md", ROOT / "docs/workshop.md")
LONGEST = 30  # words of a sentence in `SHORT`
LEFT_OUT = re.compile(r"```.*?```|<!--.*?-->|<picture>.*?</picture>|<[^>]+>|^\|[^\n]*|^#[^\n]*", re.S | re.M)
END = re.compile(r"(?<=[.?!:;])[\s)\"*]+|\n\s*\n|\n\s*(?:[-*]|\d\.) ")
OFF = {"typography": False}  # the documents keep to ASCII
HOUSE = (
    (
        "person",
        r"\b(?:[Ww]hoever|whomever|[Hh]e|[Ss]he|him|[Hh]is|hers?|himself|herself)\b",
        "Persons are they, things are it.",
    ),
    ("own", r"\bof (?:its|their|one's|your) own(?=\s*[.,;:()])", "Say 'its own lock', not 'a lock of its own'."),
    ("no", r"(?<![Tt]here )\b(?:is|are|was|were) no(?! (?:longer|more|less|better|other)\b)\b", "Say 'is not a'."),
    ("subject", r"(?:\n|[.;:] )(?:Who|Nobody|Somebody|Everybody) (?!\w+\?)", "Name the thing: the caller, the buyer."),
)


def prose(path: Path) -> str:
    """A document's sentences, each on its own line."""
    text = LEFT_OUT.sub(lambda found: "\n" * found[0].count("\n"), path.read_text(encoding="utf-8"))
    numbers = itertools.count()
    return re.sub(r"`[^`\n]*`", lambda _: f"CODE{next(numbers)}S", re.sub(r"\]\([^)]*\)", "]", text))


def too_long(text: str, check: Check) -> Iterator[CheckResult]:
    """Sentences of more than `LONGEST` words."""
    begin = 0
    for end in (*END.finditer(text), None):
        stop = len(text) if end is None else end.start()
        if len(text[begin:stop].split()) > LONGEST:
            start = begin + len(text[begin:stop]) - len(text[begin:stop].lstrip())
            yield CheckResult(check.path, check.message, (start, stop), None)
        begin = len(text) if end is None else end.end()


def lint(path: Path) -> list[str]:
    """What is wrong with one document: file, line and advice."""
    checks = {**DEFAULT["checks"], **OFF, "house": True, "length": path in SHORT}
    found = LintFile(str(path.relative_to(ROOT)), prose(path)).lint({**DEFAULT, "checks": checks})
    return [f"{path.relative_to(ROOT)}:{each.pos[0]}: {each.check_result.message}" for each in found]


def register() -> None:
    """Add proselint's checks and the house style to those that `lint` runs."""
    registry = CheckRegistry()
    registry.register_many(__register__)
    case = engine.RegexOptions(case_insensitive=False)
    for name, pattern, message in HOUSE:
        registry.register(Check(types.ExistenceSimple(pattern), engine.Fancy(case), f"house.{name}", message))
    registry.register(Check(too_long, path="length", message=f"This sentence has more than {LONGEST} words."))


def main() -> None:
    """Print what is found; the exit code says whether that is nothing."""
    register()
    found = [line for path in TEXTS for line in lint(path)]
    print("\n".join(found) or f"{len(TEXTS)} documents: no complaint")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
