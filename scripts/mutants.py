"""`make mutants ARGS=lock/core`: takes out statements and conditions one by one, and prints those that no test misses.

Each change is made in a copy of the repository, in which pytest then runs the tests of the folder until one fails.
`ARGS=lock/core/view.py` tries one file, `ARGS="app/sales 200"` a sample. `scripts/mutants.txt` lists what may live: a
line for each, below one with # that says why.
"""

from __future__ import annotations

import ast
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from difflib import ndiff
from pathlib import Path
from queue import SimpleQueue
from typing import Any

LISTED = Path(__file__).with_suffix(".txt")
MADE = shutil.ignore_patterns(".*", "__pycache__", "build", "mutants", "node_modules", "reports", "site")
# Tests that take out rules themselves are none that notice; a mutant that hangs counts as noticed.
PYTEST = ["-m", "pytest", "-xq", "--timeout=30", "-p", "no:cacheprovider", "-knot missing_rule and not explorations"]
KEPT = (ast.Pass, ast.Assert, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SWAPPED: dict[type, type] = {ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.Is: ast.IsNot, ast.In: ast.NotIn}
SWAPPED |= {new: old for old, new in SWAPPED.items()}


def changes(node: Any) -> Iterator[tuple[str, Any]]:
    """A field of this node and another value for it: a statement or a condition less, or a comparison swapped."""
    for field in ("body", "orelse", "finalbody"):
        block: Any = getattr(node, field, None)
        for index, each in enumerate(block if isinstance(block, list) else ()):
            is_text = isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
            is_simple = isinstance(each, ast.stmt) and not hasattr(each, "body") and not isinstance(each, KEPT)
            if is_simple and not is_text and not ast.unparse(each).startswith("logger."):
                yield field, [*block[:index], ast.Pass(), *block[index + 1 :]]
    if isinstance(node, ast.If | ast.IfExp):
        yield "test", ast.BoolOp(ast.Or(), [node.test, ast.Constant(True)])
        yield "test", ast.BoolOp(ast.And(), [node.test, ast.Constant(False)])
    elif isinstance(node, ast.BoolOp):
        neutral = ast.Constant(isinstance(node.op, ast.And))
        for index, _ in enumerate(node.values):
            yield "values", [*node.values[:index], neutral, *node.values[index + 1 :]]
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield "ifs", node.ifs[1:]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "operand", ast.UnaryOp(ast.Not(), node.operand)
    elif isinstance(node, ast.Compare):
        yield "ops", [SWAPPED[type(node.ops[0])](), *node.ops[1:]]


def mutants(path: Path) -> Iterator[tuple[Path, str, str]]:
    """Each change of each function of a file: what it changes, and the source with it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    scopes = [each for each in ast.walk(tree) if isinstance(each, ast.Module | ast.ClassDef)]
    for function in [each for scope in scopes for each in scope.body if isinstance(each, FUNCTIONS)]:
        before = ast.unparse(function).splitlines()
        for node in [*ast.walk(function)]:
            for field, value in [*changes(node)]:
                own = getattr(node, field)
                setattr(node, field, value)
                changed = [line for line in ndiff(before, ast.unparse(function).splitlines()) if line[0] in "-+"]
                yield path, f"{path} {function.name}: {' '.join(' '.join(changed).split())}", ast.unparse(tree)
                setattr(node, field, own)


def copied(copy: Path) -> Path:
    """A copy of the repository, without what is made in it."""
    shutil.rmtree(copy, ignore_errors=True)
    return Path(shutil.copytree(".", copy, ignore=MADE))


def main(target: str = "lock/core", count: str = "all") -> int:
    """Try all mutants of a folder or a file, or so many of them; 0 if those that live are listed."""
    path, copies = Path(target), SimpleQueue[Path]()
    tried = [each for file in ([path] if path.suffix else sorted(path.glob("*.py"))) for each in mutants(file)]
    tried = tried if count == "all" else random.Random(58).sample(tried, int(count))
    tests = Path("tests", path.parent if path.suffix else path)
    for name in "ab":
        copies.put(copied(Path("mutants", name)))

    def lives(mutant: tuple[Path, str, str]) -> bool:
        path, _, source = mutant
        copy = copies.get()
        (copy / path).write_text(source, encoding="utf-8")
        files = sorted(tests.rglob("test_*.py"), key=lambda file: file.name != f"test_{path.name}")
        code = subprocess.run([sys.executable, *PYTEST, *files], cwd=copy, stdout=subprocess.DEVNULL).returncode
        shutil.copy(path, copy / path)
        copies.put(copy)
        return code == 0

    if not lives((tried[0][0], "", tried[0][0].read_text(encoding="utf-8"))):
        sys.exit(f"{tests} fail without a change: mend them first.")
    with ThreadPoolExecutor(copies.qsize()) as pool:
        living = {change for (_, change, _), lived in zip(tried, pool.map(lives, tried), strict=True) if lived}
    unknown = sorted(living - {*LISTED.read_text(encoding="utf-8").splitlines()})
    print("\n".join([f"Not noticed, and not in {LISTED.name}: {len(unknown)} of {len(tried)}", *unknown]))
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
