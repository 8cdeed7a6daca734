"""docs/pitfalls.md: every pitfall keeps its number, and every conformance case is in the table."""

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


def test_every_case_of_the_conformance_suite_is_there() -> None:
    """The letters of the table are those of the tests, and what etcdctl fails at is said in the same words."""
    tests = {name for path in (ROOT / "tests/lock/conformance").glob("test_*.py") for name in functions(path)}
    assert "".join(CASES) == "abcdefghijklmnop"
    assert {name.split("_")[1] for name in tests if name.startswith("test_")} == set(CASES)
    assert set(KNOWN_FAILURES) <= tests
    for name, reason in KNOWN_FAILURES.items():
        assert reason in CASES[name.split("_")[1]].rpartition("| yes |")[2]
