"""Scenarios and guards are found: nothing lists them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GUARD = """
from app.guards.etcd import EtcdGuard


class LearnersGuard(EtcdGuard):
    name = "learners"
    loses_lock = True
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of what the commands need."""
    for package in ("app", "labs", "loadtest", "lock"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def printed(copy: Path, *words: str) -> str:
    """What a command prints, run in the copy."""
    command = [sys.executable, "-m", "loadtest", *words]
    env = {**os.environ, "PYTHONPATH": ""}
    return subprocess.run(command, cwd=copy, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_a_guard_in_a_new_file_can_be_tried(copy: Path) -> None:
    """A guard whose lock can be lost is offered without any other edit."""
    (copy / "app/guards/learners.py").write_text(GUARD, encoding="utf-8")
    assert "learners" in printed(copy, "faults", "--help")


def test_scenarios_of_a_lab_go_with_it(copy: Path) -> None:
    """Without the lab of the openings, its scenarios and their group are gone, and all others are there."""
    before = printed(copy, "faults", "--help")
    shutil.rmtree(copy / "labs/opening")
    after = printed(copy, "faults", "--help")
    assert "opening" in before
    assert "opening" not in after.replace("random-opening", "", 1)  # named by an option
    assert "transfer, failover: all that begin with this word" in after


def test_the_opening_runs_without_the_faults(copy: Path) -> None:
    """Its scenarios are not imported then; shop and commands are as before, but for those of the faults."""
    shutil.rmtree(copy / "labs/faults")
    shown = printed(copy, "--help")
    assert "demo" in shown
    assert "faults" not in shown
    env = {**os.environ, "PYTHONPATH": ""}
    routes = "from app import create_app; print(create_app().url_map)"
    done = subprocess.run([sys.executable, "-c", routes], cwd=copy, env=env, capture_output=True, text=True, check=True)
    assert "/sale/schedule" in done.stdout
