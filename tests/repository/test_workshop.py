"""docs/workshop.md: every step can be run as it stands there, and its outputs have the shape of today's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from loadtest.cli.main import cli
from loadtest.cli.workshop import Step
from tests.support.terminal import printed

scenarios = pytest.importorskip("labs.faults.scenarios").scenarios
results_table = pytest.importorskip("labs.faults.screen").results_table

ROOT = Path(__file__).resolve().parents[2]
WORKSHOP = (ROOT / "docs/workshop.md").read_text(encoding="utf-8")
STEPS = {
    "unlocked": {"none": "OVERSOLD"},
    "local": {"none": "OVERSOLD", "thread": "OVERSOLD"},
    "mutex": {"none": "OVERSOLD", "etcd": "EXACT"},
    "kill": {"etcd": "EXACT"},
    "pause": {"etcd-unfenced": "OVERSOLD", "etcd": "EXACT"},
    "atomic": {"none": "OVERSOLD", "etcd": "EXACT", "redis-lua": "EXACT"},
    "opening": {"etcd": "OVERSOLD"},  # in the last run, without the token
}


def typed(command: str) -> list[str]:
    return Step("", "", command, "").words


def commands() -> list[list[str]]:
    """What each command of the text hands to python -m loadtest."""
    found = dict.fromkeys(re.findall(r"^\$ (make .*)$|`(make [^`]*)`", WORKSHOP, re.MULTILINE))
    return [typed(first or second) for first, second in found]


def test_there_are_seven_steps_in_seventy_minutes(readme_script: ModuleType) -> None:
    """The output of each step can be generated, and the plan adds up to 70 minutes."""
    assert [name for name in readme_script.PARTS[readme_script.WORKSHOP] if name] == [*STEPS]
    assert [name for name in re.findall(r"<!-- (\w+): generated -->", WORKSHOP) if name] == [*STEPS]
    times = [tuple(map(int, each)) for each in re.findall(r"^\| (\d+)-(\d+) \|", WORKSHOP, re.MULTILINE)]
    assert [begin for begin, _ in times] == [0, *(end for _, end in times[:-1])]
    assert times[-1][1] == 70


def test_every_command_is_one_that_can_be_run() -> None:
    """Each command of the text, with its scenarios, guards and options, is accepted by the command line."""
    words = [words for words in commands() if "homemade" not in words]
    assert len(words) >= 9
    for name, *arguments in words:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        command.make_context(name, arguments)


@pytest.mark.parametrize(("step", "verdicts"), STEPS.items(), ids=STEPS)
def test_a_step_shows_a_command_and_ends_as_the_text_tells(
    readme_script: ModuleType, step: str, verdicts: dict[str, str]
) -> None:
    """The command is what the script would run to write the part anew, and each verdict what the text is about."""
    make: partial[Any] = readme_script.PARTS[readme_script.WORKSHOP][step]
    shown = readme_script.part(step, WORKSHOP)
    fence, command, *_ = shown.splitlines()
    assert (fence, typed(command.removeprefix("$ "))) == ("```text", list(make.args))
    told = dict(re.findall(r"^ *(\S+?):?(?: .*)? (EXACT|OVERSOLD|UNDERSOLD)\b", shown, re.MULTILINE))
    assert {guard: told.get(guard) for guard in verdicts} == verdicts


@pytest.mark.parametrize(("step", "scenario"), [("kill", "kill-holder"), ("opening", "opening-late")])
def test_a_fault_is_shown_as_it_is_today(readme_script: ModuleType, step: str, scenario: str) -> None:
    """The scenario says what it says in the code, the table has today's columns, all is as expected."""
    shown = readme_script.part(step, WORKSHOP)
    assert f"{scenario}: {scenarios()[scenario].summary}" in " ".join(shown.split())
    titles = [line.split() for line in printed(results_table([], plain=True)).splitlines()[:2]]
    assert all(title in [line.split() for line in shown.splitlines()] for title in titles)
    assert ": all as expected." in shown
    assert "WRONG" not in shown.split()


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
    words = [words for words in commands() if "homemade" in words][number]
    command = [sys.executable, "-m", "loadtest", *words, *less]
    done = subprocess.run(
        command, cwd=clone, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True, check=False
    )
    told = re.search(r"^homemade +(\w+)", done.stdout, re.MULTILINE)
    assert (told and told[1], done.returncode) == verdict
