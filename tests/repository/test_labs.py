"""The core runs without the labs, each lab without the others, and a guard is one new file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if not (ROOT / "labs").is_dir():
    pytest.skip("the labs were deleted", allow_module_level=True)
LABS = sorted(path.name for path in (ROOT / "labs").iterdir() if (path / "__init__.py").exists())
COPIED = ("app", "deploy", "labs", "loadtest", "lock", "tests", "docs", "scripts", "conftest.py", "pyproject.toml")
WORKSHOP = (ROOT / "docs/workshop.md").read_text(encoding="utf-8")
IMPORT_ALL = """
from app import create_app
from app.contract import labs
from app.guards import guards
from loadtest.cli.main import cli
create_app()
print(*guards(), *cli.list_commands(None))
"""
SMALL = ("--buyers", "40", "--stock", "20", "--hold-ms", "20")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what runs, and in it the guard that the workshop takes in."""
    copy = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            shutil.copy(source, copy)
    shutil.copy(copy / "docs/examples/homemade.py", copy / "app/guards")
    return copy


@contextmanager
def without(copy: Path, folder: str) -> Iterator[None]:
    """As if this folder of the copy were deleted."""
    away = (copy / folder).rename(copy / "deleted")
    try:
        yield
    finally:
        away.rename(copy / folder)


def run(copy: Path, *words: str) -> str:
    """Run Python in the copy; what it prints."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    done = subprocess.run([sys.executable, *words], cwd=copy, env=env, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_the_core_sells_and_is_tested_without_labs(copy: Path) -> None:
    """Without the folder, a rush is compared, and no test of the core imports it; a guard needs one file."""
    with without(copy, "labs"):
        shown = run(copy, "-m", "loadtest", "demo", "--guard=etcd", "--guard=homemade", *SMALL)
        assert " tests collected" in run(copy, "-m", "pytest", "-q", "--collect-only", "tests/app", "tests/loadtest")
    assert "Every promise was kept." in shown
    assert re.search(r"^homemade .*EXACT", shown, re.MULTILINE)
    runs = json.loads((copy / "reports/latest/comparison.json").read_text(encoding="utf-8"))["runs"]
    promises = {each["guard"]: each["promise"] for each in runs}
    assert promises == {"none": "none", "etcd": "exact", "homemade": "exact"}


@pytest.mark.slow
def test_the_guard_of_the_text_breaks_where_a_buyer_is_slow(copy: Path) -> None:
    """By the command of the text, in which a buyer outlives the key."""
    _, slow = re.findall(r'make demo ARGS="(--guard homemade .*?)"', WORKSHOP)
    command = [sys.executable, "-m", "loadtest", "demo", *slow.split()]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    assert re.search(r"^homemade .* OVERSOLD ", done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert done.returncode == 1


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_whole_core_is_tested_without_labs(copy: Path) -> None:
    """Every test of the core passes without the folder."""
    tests = ["tests/app", "tests/loadtest", "tests/lock"]
    words = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *tests]
    with without(copy, "labs"):
        done = subprocess.run(words, cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.fixture(scope="module")
def everything(copy: Path) -> list[str]:
    """Guards and commands with all labs."""
    return run(copy, "-c", IMPORT_ALL).split()


@pytest.mark.slow
@pytest.mark.parametrize("lab", LABS)
def test_each_lab_can_be_deleted(copy: Path, everything: list[str], lab: str) -> None:
    """The shop and the commands of all others are still there."""
    text = "".join(path.read_text(encoding="utf-8") for path in (copy / "labs" / lab).rglob("*.py"))
    own = re.findall(r"^@click\.command\(", text, re.MULTILINE)
    with without(copy, f"labs/{lab}"):
        rest = run(copy, "-c", IMPORT_ALL).split()
    assert set(rest) <= set(everything)
    assert len(rest) >= len(everything) - max(len(own), 3)
    assert {"demo", "up", "none", "etcd", "homemade"} <= set(rest)
