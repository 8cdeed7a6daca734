"""docs/pitfalls.md: every pitfall keeps its number, and the table of conformance says how etcdctl fails."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.lock.conformance.conftest import KNOWN_FAILURES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pitfalls.md").read_text(encoding="utf-8")
NUMBERS = re.findall(r"^(\d+)\. .* \*\*.*\*\*$", PAGE, re.MULTILINE)
CASES = dict(re.findall(r"^\| ([a-z]) \|(.*)\|$", PAGE, re.MULTILINE))


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_all_pitfalls_are_there() -> None:
    """One to forty-two, each once: code and tests refer to them by number."""
    assert [int(number) for number in NUMBERS] == list(range(1, 43))


def test_the_failures_of_etcdctl_are_in_the_table() -> None:
    """The letters are those of the tests, and what etcdctl fails at is said in the same words."""
    tests = {name for path in (ROOT / "tests/lock/conformance").glob("test_*.py") for name in functions(path)}
    cases = {name.split("_")[1] for name in tests if name.startswith("test_")}
    assert "".join(sorted(cases)) == "abcdefghijklmnop"
    assert set(CASES) <= cases
    assert set(KNOWN_FAILURES) <= tests
    for name, reason in KNOWN_FAILURES.items():
        assert reason in CASES[name.split("_")[1]]
