"""The commands of the documents can be run as they stand there; so can the guard that the workshop's text builds."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import click
import pytest

from loadtest.cli.main import cli
from tests.support.labs import needs_labs

ROOT = Path(__file__).resolve().parents[2]
WORKSHOP = (ROOT / "docs/workshop.md").read_text(encoding="utf-8")
DOCUMENTS = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("labs/*/*.md")} - {ROOT / "CHANGELOG.md"})
MAKEFILES = [ROOT / "Makefile", *ROOT.glob("labs/*/targets.mk")]


def words_of(command: str) -> list[str]:
    """A ``make`` command as a name and what follows ARGS=."""
    target, *settings = shlex.split(command.removeprefix("make "))
    return [target, *(word for each in settings for word in shlex.split(each.removeprefix("ARGS=")))]


def commands(text: str) -> list[list[str]]:
    """Each ``make`` command of a text, on a line of its own or quoted."""
    found = re.findall(r"^(?:\$ )?(make [^#\n]*?) *(?:#.*)?$|`(make [^`]*)`", text, re.MULTILINE)
    return [words_of(first or second) for first, second in dict.fromkeys(found)]


@needs_labs
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_command_can_be_run(document: Path) -> None:
    """Its target exists; if it runs a command of ours, scenarios, guards and options are accepted."""
    makefiles = "".join(path.read_text(encoding="utf-8") for path in MAKEFILES)
    for name, *arguments in commands(document.read_text(encoding="utf-8")):
        assert re.search(rf"^(?:[a-z -]* )?{name}(?: [a-z -]*)?:", makefiles, re.MULTILINE), name
        command = cli.get_command(click.Context(cli), name)
        if command is not None and "homemade" not in arguments and "NAME" not in arguments:
            with suppress(click.exceptions.Exit):  # --help
                command.make_context(name, arguments)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of what a demo needs, with the guard of the text built into it as the text says."""
    for package in ("app", "lock", "loadtest"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    code = re.findall(r"^```python\n(.*?)^```$", WORKSHOP, re.MULTILINE | re.DOTALL)
    (tmp_path / "app/guards/homemade.py").write_text(*code)
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("number", "less", "verdict"),
    [(0, ["--buyers=60", "--stock=20", "--hold-ms=2"], ("EXACT", 0)), (1, [], ("OVERSOLD", 1))],
    ids=["plain", "slow"],
)
def test_the_guard_of_the_text_is_exact_until_a_buyer_is_slow(
    clone: Path, number: int, less: list[str], verdict: tuple[str, int]
) -> None:
    """Built in as told, it passes the plain rush, and breaks its promise where a buyer outlives the key."""
    words = [words for words in commands(WORKSHOP) if "homemade" in words][number]
    command = [sys.executable, "-m", "loadtest", *words, *less]
    done = subprocess.run(
        command, cwd=clone, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True, check=False
    )
    told = re.search(r"^homemade .*?\b([A-Z]{5,})\b", done.stdout, re.MULTILINE)
    assert (told and told[1], done.returncode) == verdict
