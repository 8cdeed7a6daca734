"""`make mutants ARGS=lock/core`: takes out statements and conditions one by one, and prints those that no test misses.

mutmut runs the tests of the folder on each mutant, in `mutants/`, and goes on where it was stopped; `make clean` begins
anew. `ARGS=lock/core/view.py` tries one file, `ARGS="app/sales 200"` a sample. `scripts/mutants.txt` lists what may
live: a line for each, below one with # that says why.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import libcst as cst
from libcst import matchers
from mutmut import __main__ as command
from mutmut import configuration
from mutmut.mutation import mutators
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.utils.file_utils import walk_mutatable_files

LISTED = Path(__file__).with_suffix(".txt")
PARTS = ("app", "conftest.py", "labs", "loadtest", "lock", "scripts", "docs")
UNNOTICED = (0, 33)  # exit codes: the tests pass, or there is none
KEPT = matchers.SimpleStatementLine(
    [
        matchers.Pass()
        | matchers.Assert()
        | matchers.Expr(matchers.SimpleString())
        | matchers.Expr(matchers.Call(matchers.Attribute(matchers.Name("logger"))))
    ]
)


def take_out(node: cst.SimpleStatementLine) -> Iterable[cst.SimpleStatementLine]:
    """An assignment, a call, a return: all but docstrings, assertions and log lines."""
    if not matchers.matches(node, KEPT):
        yield cst.SimpleStatementLine([cst.Pass()])


def decide(node: cst.If | cst.IfExp) -> Iterable[cst.If | cst.IfExp]:
    """A condition that is always true, or never."""
    for operator, name in ((cst.Or(), "True"), (cst.And(), "False")):
        test = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        yield node.with_changes(test=cst.BooleanOperation(test, operator, cst.Name(name)))


def shorten(node: cst.BooleanOperation) -> Iterable[cst.BaseExpression]:
    """One half of a condition alone."""
    for half in (node.left, node.right):
        yield half.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def admit_all(node: cst.CompFor) -> Iterable[cst.CompFor]:
    """A comprehension without its condition."""
    if node.ifs:
        yield node.with_changes(ifs=node.ifs[1:])


# In place of mutmut's own: other texts, numbers and arguments change messages and speed more often than rules.
mutators.mutation_operators[:] = [  # type: ignore[index]
    (cst.SimpleStatementLine, take_out),
    (cst.If, decide),
    (cst.IfExp, decide),
    (cst.BooleanOperation, shorten),
    (cst.CompFor, admit_all),
    (cst.UnaryOperation, mutators.operator_remove_unary_ops),
    (cst.ComparisonTarget, mutators.operator_swap_op),
]


def lives() -> dict[str, str]:
    """Each mutant that no test has noticed, by what it changes: function, line of before and line of now."""
    found: dict[str, str] = {}
    for path in walk_mutatable_files():
        tried = SourceFileMutationData(path=path)
        tried.load()
        for name in [name for name, code in tried.exit_code_by_key.items() if code in UNNOTICED]:
            lines = [line for line in get_diff_for_mutant(name, path=path).splitlines()[2:] if line[:1] in "+-"]
            found[f"{name.partition('__mutmut')[0]}: {' '.join(' '.join(line.split()) for line in lines)}"] = name
    return found


def main(target: str = "lock/core", count: str = "all") -> int:
    """Try all mutants of a folder or a file, or so many of them; 0 if those that live are listed."""
    path = Path(target)
    folder, source = path.parent if path.suffix else path, path.parts[0]
    configuration._config = replace(
        configuration._load_config(),
        source_paths=[Path(source)],
        only_mutate=[target if path.suffix else f"{folder}/*.py"],
        also_copy=[Path(part) for part in (*PARTS, "tests", "pyproject.toml") if part != source],
        pytest_add_cli_args_test_selection=[f"tests/{folder}"],
    )
    collect = command.collect_source_file_mutation_data

    def sample(*, mutant_names: Any) -> Any:
        mutants, by_path = collect(mutant_names=mutant_names)
        return (mutants if count == "all" else random.Random(58).sample(mutants, int(count))), by_path

    command.collect_source_file_mutation_data = sample
    command._run((), min(2, os.cpu_count() or 1))
    listed = LISTED.read_text(encoding="utf-8").splitlines()
    unknown = [f"{change}\n    {name}" for change, name in lives().items() if change not in listed]
    print("\n".join(["", f"Not noticed, and not in {LISTED.name}: {len(unknown)}", *unknown]))
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
